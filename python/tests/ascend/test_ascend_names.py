# SPDX-License-Identifier: Apache-2.0
"""Kernels see the namespace AscendC without its name, so what is ours there is named so that no
kernel has a name like it: it would be ambiguous.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEADERS = sorted((Path(__file__).resolve().parents[3] / "ascend/include/anyop_ascend").glob("*.h"))
# Types of the vendor's interface, from its public documentation.
PUBLIC = """
    BinaryRepeatParams BlockMode BrcbRepeatParams CMPMODE CacheLine CacheMode CopyRepeatParams
    DataCopyEnhancedParams DataCopyExtParams DataCopyPadExtParams DataCopyPadParams DataCopyParams
    DcciDst DeqScale FixpipeParams FixpipeParamsV220 GatherMaskParams GatherRepeatParams
    GlobalTensor HardEvent Hardware ListTensorDesc LoadData2DMxParams LoadData2DParams
    LoadData2dParams LoadData2dTransposeParams LoadData3DParamsV2 LocalMemAllocator LocalTensor
    MaskMode MemDsbT MmadParams MrgSort4Info MrgSortSrcList Nd2NzParams Nz2NdParamsFull QuePosition
    ReduceOrder RmsNormTiling RoundMode SELMODE SoftMaxShapeInfo SoftMaxTiling TBuf TEventID TPipe
    TPosition TQue TQueBind TQueSync TensorDesc TopKInfo TopKMode TopkTiling TransDataTo5HDParams
    TransposeParamsExt TransposeType UnaryRepeatParams HcclServerType Hccl"""
SCOPE = re.compile(
    r"^(?:inline )?namespace (?P<open>[\w:]+) \{|^\}  // namespace (?P<end>[\w:]+)"
    r"|^(?:struct|class|enum class|enum|using) (?:ANYOP_ASCEND_UNAVAILABLE\([^)]*\)? ?)?"
    r"(?P<name>[A-Za-z_]\w*)\s*(?:[:{;=]|$)",
    re.MULTILINE,
)
ALIAS = re.compile(r"^namespace (\w+) = ", re.MULTILINE)


def names_in(text: str) -> list[str]:
    """Of types and namespaces in AscendC, outside of the namespaces in it."""
    found, open_ = list[str](), list[str]()
    for part in SCOPE.finditer(text):
        if part["open"]:
            if "AscendC" in open_[:1] and part["open"] != "ANYOP_ASCEND_BUILD" and len(open_) < 3:
                found.append(part["open"])
            open_.append(part["open"])
        elif part["end"]:
            open_.pop()
        elif open_ == ["AscendC", "ANYOP_ASCEND_BUILD"]:
            found.append(part["name"])
    return found


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_names_of_ours_are_like_no_name_of_a_kernel(header: Path) -> None:
    text = header.read_text()
    others = [name for name in names_in(text) if name not in PUBLIC.split()]
    assert all(name.lower().startswith("anyop") for name in others), others
    assert ALIAS.findall(text) in ([], ["rt"])


def test_the_names_are_read() -> None:
    found = {name for header in HEADERS for name in names_in(header.read_text())}
    assert {"LocalTensor", "anyop_blocks", "AnyopMask", "TPosition", "TQue"} <= found


KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
namespace blocks { constexpr int kOne = 1; }
namespace sorting { constexpr int kTwo = 2; }
struct Mask { int bits; };
struct Site { int n; };
template <typename T> struct View { T* data; };
class Fused {};
extern "C" __global__ __aicore__ void element(GM_ADDR x) {
  Mask mask{blocks::kOne};
  View<Site> view{nullptr};
  Fused fused;
  (void)view, (void)fused;
  ((__gm__ int32_t*)x)[0] = mask.bits + sorting::kTwo;
}
"""


def test_kernels_may_use_such_names(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text(KERNEL)
    command = [sys.executable, "-m", "anyop", "ascend", "check", str(tmp_path / "kernel.cpp")]
    done = subprocess.run(
        [*command, "--arg", "out i32[1]"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "element: 1 call, 0 errors\n", done.stdout + done.stderr
