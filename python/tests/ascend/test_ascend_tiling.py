# SPDX-License-Identifier: Apache-2.0
"""Tiling functions of op_host files say how a kernel is launched: examples/ascend_tiling."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "ascend_tiling"


def anyop(*arguments, status=0):
    command = [sys.executable, "-m", "anyop", "ascend", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture
def package(tmp_path):
    return shutil.copytree(EXAMPLE, tmp_path / "package")


def test_it_says_blocks_data_key_and_workspace(tmp_path):
    kernel = EXAMPLE / "op_kernel" / "scale.cpp"
    assert anyop("check", kernel, "--fuzz", "20").stdout == "scale: 21 calls, 0 errors\n"
    for dtype, factor in (("f16", 3.0), ("f32", 0.5)):  # a tiling key each
        folder = tmp_path / dtype
        more = ["--size", "n=9001", "--save", folder, "--attr", f"factor={factor}"]
        arguments = ["--arg", f"x={dtype}[n]", "--arg", f"y=out {dtype}[n]"]
        told = anyop("run", kernel, *more, *arguments).stdout
        assert "workspace" not in told
        x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
        assert np.array_equal(y, x * x.dtype.type(factor))


def test_its_mistakes_are_found_in_the_kernel(package):
    host = package / "op_host" / "scale.cpp"
    text = host.read_text()
    assert text.count("tiling.set_size(size);") == 1
    host.write_text(text.replace("tiling.set_size(size);", "tiling.set_size(size / 32 * 32);"))
    kernel = package / "op_kernel" / "scale.cpp"
    told = json.loads(anyop("check", kernel, "--size", "n=9001", "--json", status=1).stdout)
    assert [(f["kind"], f["blocks"]) for f in told] == [("output-unwritten", 36)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--attr", "fctor=2"], "there is no attribute 'fctor'"),
        (["--attr", "fctor"], "'fctor' has no name. Try --attr eps=1e-6."),
        (["--tiling-op", "Nope"], "no library that is loaded has a tiling function for it"),
        (["--arg", "x=bf16[n]"], "'x' is DT_BF16, but its definition takes DT_FLOAT, DT_FLOAT16."),
        (["--arg", "x=f32[n]"], "'x' is DT_FLOAT, 'y' is DT_FLOAT16, but no place of the lists"),
        (["--arg", "x=out f16[n]"], "the input 'x' is REQUIRED by its definition, but is not"),
        (["--blocks", "3"], "the tiling function says them"),
        (["--tiling", EXAMPLE / "op_host" / "scale_tiling.h"], "Try IMPL_OP_OPTILING or OP_ADD"),
    ],
)
def test_what_does_not_fit_it_is_said(more, said):
    status = 2 if "has no name" in said else 1
    told = anyop("check", EXAMPLE / "op_kernel" / "scale.cpp", *more, status=status).stderr
    assert said in " ".join(told.split())


def test_a_function_that_does_not_compile_is_told_by_its_own_line(package):
    host = package / "op_host" / "scale.cpp"
    lines = host.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if "tiling.set_size" in line)
    lines[at] = "  tiling.set_sise(size);"
    host.write_text("\n".join(lines))
    told = anyop("check", package / "op_kernel" / "scale.cpp", status=1).stderr
    assert f"scale.cpp:{at + 1}: " in told and "set_sise" in told


def test_attributes_of_a_kernel_without_one_are_refused():
    kernel = EXAMPLE.parent / "ascend" / "add_custom.cpp"
    told = anyop("check", kernel, "--attr", "eps=1", status=2).stderr
    assert "Try --tiling FILE" in told


LISTS = """#include "register/op_def_registry.h"
#include "exe_graph/runtime/tiling_context.h"
static ge::graphStatus Tile(gert::TilingContext* context) {
  auto* data = context->GetTilingData<uint64_t>();
  const auto* info = context->GetIrInputInstanceInfo(0);
  *data = 0;
  for (size_t i = 0; i < info->GetInstanceNum(); ++i)
    *data += context->GetDynamicInputShape(0, i)->GetStorageShape().GetShapeSize();
  context->SetBlockDim(info->GetInstanceNum());
  return ge::GRAPH_SUCCESS;
}
class Count : public ops::OpDef {
 public:
  explicit Count(const char* name) : OpDef(name) {
    this->Input("x").ParamType(ops::DYNAMIC).DataType({ge::DT_FLOAT16});
    this->Output("y").ParamType(ops::REQUIRED).DataType({ge::DT_INT64});
    this->AICore().SetTiling(Tile);
  }
};
namespace ops { OP_ADD(Count); }
"""
COUNTS = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void count(GM_ADDR x, GM_ADDR y, GM_ADDR tiling) {
  AscendC::GlobalTensor<int64_t> total, to;
  total.SetGlobalBuffer((__gm__ int64_t*)tiling);
  to.SetGlobalBuffer((__gm__ int64_t*)y);
  if (AscendC::GetBlockIdx() == 0)
    to.SetValue(0, total.GetValue(0) * 100 + AscendC::GetBlockNum());
}
"""


def test_a_list_is_an_input_of_several_tensors(tmp_path):
    (tmp_path / "host.cpp").write_text(LISTS)
    kernel = tmp_path / "count.cpp"
    kernel.write_text(COUNTS)
    given = ["--tiling", tmp_path / "host.cpp", "--arg", "y=out i64[1]", "--arg", "tiling=tiling"]
    lists = {"list f16[2, 3], f16[4]": 1002, "list 3 of f16[5]": 1503}
    for text, wanted in lists.items():
        anyop("run", kernel, *given, "--arg", f"x={text}", "--save", tmp_path / "saved")
        assert np.load(tmp_path / "saved" / "y.npy") == [wanted]
    told = anyop("check", kernel, *given, "--arg", "x=list f16[2], f32[2]", status=1).stderr
    assert "'x' is DT_FLOAT, but its definition takes DT_FLOAT16." in " ".join(told.split())
