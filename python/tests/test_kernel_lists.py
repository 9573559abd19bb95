# SPDX-License-Identifier: Apache-2.0
"""ANYOP_KERNEL: what the build lists by itself, in which order, and what is said of mistakes."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from pathlib import Path

import pytest
from anyop._source_check import check_sources
from checkout import ROOT

sys.path.insert(0, str(ROOT / "tools"))
list_ops = importlib.import_module("list_ops")

OP = """// SPDX-License-Identifier: Apache-2.0
// gain: x times a factor.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op gain{
    .signature = "gain(x: f32[n], by: float = 2.0) -> (y: f32[n])",
};

}  // namespace anyop::ops
"""
KERNELS = """// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Run(const Context&, const Tensor& x, float by, const Tensor& y) {}
}  // namespace

ANYOP_KERNEL(gain, large){.when = "n > 99", .run = Bind<&Run>()};
ANYOP_KERNEL(gain){.run = Bind<&Run>()};

}  // namespace anyop::ops
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gain").mkdir()
    (tmp_path / "gain" / "gain.cc").write_text(OP)
    (tmp_path / "gain" / "cpu.cc").write_text(KERNELS)
    return tmp_path


def sentences(folder: Path) -> list[str]:
    return [finding.sentence for finding in check_sources([folder])]


def test_a_file_serves_every_general_instruction_set_and_better_ones_come_first(
    folder: Path,
) -> None:
    (folder / "gain" / "cpu_avx512_bf16.cc").write_text(
        KERNELS.replace("(gain, large)", "(gain, d)")
    )
    (found,) = list_ops.find(folder, "Op")
    assert found.kernels == [
        "gain_avx512_bf16_d", "gain_avx512_bf16", "gain_avx512_large", "gain_avx512",
        "gain_avx2_large", "gain_avx2", "gain_portable_large", "gain_portable",
    ]  # fmt: skip
    table = list_ops.table("their", "1", [found], [])
    assert "extern const Kernel gain_avx2 [[gnu::weak]];" in table
    assert "{8, kKernels0}" in table
    assert '"gain_avx512_bf16_d,gain_avx512_bf16,' in table
    assert sentences(folder) == []


def test_a_kernel_in_a_comment_is_none(folder: Path) -> None:
    (folder / "gain" / "cpu.cc").write_text(
        KERNELS.replace("ANYOP_KERNEL(gain)", "// ANYOP_KERNEL(gain)")
    )
    (found,) = list_ops.find(folder, "Op")
    assert found.kernels == ["gain_avx512_large", "gain_avx2_large", "gain_portable_large"]


def test_a_kernel_of_no_operator_is_named(folder: Path) -> None:
    (folder / "gain" / "cpu.cc").write_text(KERNELS.replace("(gain)", "(gian)"))
    assert sentences(folder) == [
        "this kernel is of operator gian, but there is none of this name. Did you mean 'gain'?"
    ]


def test_a_kernel_beside_a_list_is_named(folder: Path) -> None:
    own = (
        "constexpr const Kernel* kKernels[] = {&kOwn};\n\nextern constinit const Op gain{\n"
        "    .kernels = kKernels,\n"
    )
    text = OP.replace("extern constinit const Op gain{\n", "constexpr Kernel kOwn{};\n" + own)
    (folder / "gain" / "gain.cc").write_text(text)
    assert set(sentences(folder)) == {
        "operator gain lists its kernels itself, and the build adds none to them: leave out its "
        "`.kernels`, or write `extern constinit const Kernel` and add the kernel to the list."
    }


def test_what_a_kernel_takes_is_compared_with_the_signature(folder: Path) -> None:
    (folder / "gain" / "cpu.cc").write_text(KERNELS.replace("float by", "bool by"))
    assert sentences(folder) == [
        "kernel gain, large takes `bool by` for parameter 'by', but it must be `float`, because "
        "the signature says a float."
    ]


def test_a_condition_that_the_signature_does_not_know_is_named(folder: Path) -> None:
    (folder / "gain" / "cpu.cc").write_text(KERNELS.replace("n > 99", "m > 99"))
    assert sentences(folder) == [
        "unknown name: neither a parameter nor a variable that some dimension of an input binds."
    ]


def test_no_two_files_of_operators_differ_in_the_instruction_set_alone() -> None:
    """They are one file, cpu.cc. What a comment says of them is no difference."""
    isa = re.compile("avx512_bf16|avx512_vnni|avx512|avx2|amx_bf16|amx|portable")
    texts: dict[Path, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "ops").rglob("cpu_*.cc")):
        code = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        text = "".join(isa.sub("ISA", code).split())
        texts.setdefault(path.parent, []).append((path.name, text))
    twins = [
        f"{folder.name}: {a} and {b}"
        for folder, files in texts.items()
        for (a, one), (b, other) in itertools.combinations(files, 2)
        if one == other
    ]
    assert twins == []
