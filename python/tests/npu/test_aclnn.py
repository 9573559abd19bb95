# SPDX-License-Identifier: Apache-2.0
"""Operators of aclnn as a program without torch_npu calls them, in two phases; what is refused, and
in which order they run. And: each operator that there is has been called by some test.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aclnn_cases
import anyop
import pytest
import torch
from anyop.npu import operators

LIBRARY = ctypes.CDLL(str(Path(anyop.__file__).parent / "npu/lib/libopapi.so"))
MAKE = ("aclCreateTensor", "aclCreateScalar", "aclCreateIntArray", "aclCreateTensorList")
for name in MAKE:
    getattr(LIBRARY, name).restype = ctypes.c_void_p
LIBRARY.aclGetRecentErrMsg.restype = ctypes.c_char_p
NUMBERS = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9, torch.bfloat16: 27}


def list_of(values: Any) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def tensor(t: torch.Tensor) -> ctypes.c_void_p:
    sizes, strides = list_of(t.shape), list_of(t.stride())
    data, rank = ctypes.c_void_p(t.data_ptr()), ctypes.c_uint64(t.dim())
    return ctypes.c_void_p(
        LIBRARY.aclCreateTensor(
            sizes, rank, NUMBERS[t.dtype], strides, ctypes.c_int64(0), 2, sizes, rank, data
        )
    )


def tensors(*ts: torch.Tensor) -> ctypes.c_void_p:
    made = (ctypes.c_void_p * len(ts))(*[tensor(t) for t in ts])
    return ctypes.c_void_p(LIBRARY.aclCreateTensorList(made, ctypes.c_uint64(len(ts))))


def number(value: float) -> ctypes.c_void_p:
    return ctypes.c_void_p(LIBRARY.aclCreateScalar(ctypes.byref(ctypes.c_float(value)), 0))


def integer(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.npu.current_stream().npu_stream)


def plan(name: str, *arguments: Any) -> tuple[int, ctypes.c_void_p]:
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    first = getattr(LIBRARY, name + "GetWorkspaceSize")
    code = first(*arguments, ctypes.byref(size), ctypes.byref(executor))
    return code, executor


def launch(name: str, executor: ctypes.c_void_p) -> int:
    code: int = getattr(LIBRARY, name)(None, ctypes.c_uint64(0), executor, stream())
    return code


def call(name: str, *arguments: Any) -> None:
    code, executor = plan(name, *arguments)
    assert code == 0, LIBRARY.aclGetRecentErrMsg()
    assert launch(name, executor) == 0


def refused(name: str, *arguments: Any) -> str:
    code, _ = plan(name, *arguments)
    assert code != 0
    text: bytes = LIBRARY.aclGetRecentErrMsg()
    return text.decode()


# ---- Names that torch_npu does not call, or calls from its own threads alone.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_names_that_no_function_of_torch_leads_to(dtype: torch.dtype) -> None:
    here = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    x, limit, out = here.npu(), torch.zeros(6, dtype=dtype).npu(), torch.empty_like(here).npu()
    call("aclnnClampMax", tensor(x), number(0.5), tensor(out))
    assert torch.equal(out.cpu(), here.clamp(max=0.5))
    call("aclnnClampMin", tensor(x), number(0.5), tensor(out))
    assert torch.equal(out.cpu(), here.clamp(min=0.5))
    call("aclnnClampMaxTensor", tensor(x), tensor(limit), tensor(out))
    assert torch.equal(out.cpu(), here.clamp(max=0))
    call("aclnnClampMinTensor", tensor(x), tensor(limit), tensor(out))
    assert torch.equal(out.cpu(), here.clamp(min=0))
    call("aclnnInplaceOne", tensor(out))
    assert torch.equal(out.cpu(), torch.ones(4, 6, dtype=dtype))
    call("aclnnForeachCopy", tensors(x, limit), tensors(out, limit))
    assert torch.equal(out.cpu(), here)
    call("aclnnForeachZeroInplace", tensors(out))
    assert torch.equal(out.cpu(), torch.zeros(4, 6, dtype=dtype))
    parts = [torch.empty(4, n, dtype=dtype).npu() for n in (1, 5)]
    sizes = ctypes.c_void_p(LIBRARY.aclCreateIntArray(list_of((1, 5)), ctypes.c_uint64(2)))
    call("aclnnSplitWithSize", tensor(x), sizes, integer(1), tensors(*parts))
    assert torch.equal(torch.cat(parts, 1).cpu(), here)
    values, at = torch.empty(4, 2, dtype=dtype).npu(), torch.empty(4, 2, dtype=torch.int64).npu()
    flags = [ctypes.c_bool(True)] * 2
    call("aclnnTopk", tensor(x), integer(2), integer(1), *flags, tensor(values), tensor(at))
    assert torch.equal(values.cpu(), here.topk(2)[0]) and torch.equal(at.cpu(), here.topk(2)[1])


def test_rotation_in_quarters() -> None:
    here, cos, sin = torch.randn(3, 1, 2, 3, 8, generator=torch.Generator().manual_seed(0))
    x, c, s, out = (t.npu() for t in (here, cos, sin, here))
    arguments = (tensor(x), tensor(c), tensor(s), integer(2), tensor(out))
    call("aclnnRotaryPositionEmbedding", *arguments)
    a, b, c, d = here.double().chunk(4, -1)
    want = here.double() * cos.double() + torch.cat([-b, a, -d, c], -1) * sin.double()
    torch.testing.assert_close(out.cpu().double(), want, rtol=1e-6, atol=1e-6)


# ---- Two phases.


def test_strided_views_and_offsets() -> None:
    whole = torch.arange(24.0).reshape(4, 6).npu()
    column, out = whole[:, 2], torch.zeros(6, 4).npu()
    call("aclnnAbs", tensor(column), tensor(out[3]))
    assert out[3].tolist() == [2.0, 8.0, 14.0, 20.0] and out.cpu().sum() == 44
    call("aclnnInplaceCopy", tensor(whole.t()[1]), tensor(out[3]))
    assert whole[:, 1].tolist() == [2.0, 8.0, 14.0, 20.0]


def test_sizes_that_are_known_when_it_has_run() -> None:
    x, out = torch.tensor([0.0, 2.0, 0.0, 3.0]).npu(), torch.zeros(4, 1, dtype=torch.int64).npu()
    result = tensor(out)
    call("aclnnNonzero", tensor(x), result)
    torch.npu.synchronize()
    sizes, rank = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    assert LIBRARY.aclGetViewShape(result, ctypes.byref(sizes), ctypes.byref(rank)) == 0
    assert sizes[: rank.value] == [2, 1] and out[:2, 0].tolist() == [1, 3]


def test_executor_that_may_run_again() -> None:
    x, out = torch.ones(3).npu(), torch.zeros(3).npu()
    code, executor = plan("aclnnAdd", tensor(x), tensor(out), number(1), tensor(out))
    assert code == 0 and LIBRARY.aclSetAclOpExecutorRepeatable(executor) == 0
    for _ in range(3):
        assert launch("aclnnAdd", executor) == 0
    assert out.tolist() == [3.0] * 3
    other = torch.full((3,), 5.0).npu()
    data = ctypes.c_void_p(other.data_ptr())
    assert LIBRARY.aclSetTensorAddr(executor, ctypes.c_size_t(0), None, data) == 0
    assert launch("aclnnAdd", executor) == 0
    assert out.tolist() == [8.0] * 3
    assert LIBRARY.aclDestroyAclOpExecutor(executor) == 0


def test_work_is_in_the_order_of_the_stream() -> None:
    x = torch.zeros(1000).npu()
    for _ in range(50):
        call("aclnnInplaceAdds", tensor(x), number(1), number(2))
        x.mul_(1)
    assert x.cpu().eq(100).all()


def test_what_is_refused() -> None:
    x, out = torch.ones(2, 3).npu(), torch.ones(2, 4).npu()
    text = refused("aclnnAbs", tensor(x), tensor(out))
    assert text == "virtual NPU: aclnnAbs: out is Float[2, 4], but must be Float[2, 3]."
    text = refused("aclnnAbs", tensor(x), tensor(torch.ones(2, 3, dtype=torch.int32).npu()))
    assert text == ("virtual NPU: aclnnAbs: out is Int[2, 3], which cannot hold Float[2, 3].")
    assert refused("aclnnAbs", None, tensor(x)).endswith("self is null, but must be given.")
    text = refused("aclnnAbs", tensor(torch.ones(2, 3)), tensor(x))
    assert text.endswith("self is in the host's memory, but must be in the device's.")
    gone, there = tensor(x), tensor(x)
    assert LIBRARY.aclDestroyTensor(gone) == 0
    text = refused("aclnnAbs", gone, there)
    assert text.endswith("self is nothing that was made and not yet destroyed.")
    assert LIBRARY.aclDestroyTensor(gone) != 0
    text = refused("aclnnMm", tensor(x), tensor(x), tensor(x), ctypes.c_int8(0))
    told = "a and b must have same reduction dim, but got [2, 3] X [2, 3]"
    assert text == f"virtual NPU: aclnnMm: {told}, with self Float[2, 3], other Float[2, 3]."
    text = refused("aclnnInplaceScatterUpdate", tensor(x), tensor(x), tensor(x), integer(7))
    assert text.startswith("virtual NPU: aclnnInplaceScatterUpdate: ") and "\n" not in text
    assert refused("aclnnFlatQuant") == "virtual NPU: aclnnFlatQuant is not supported."


def test_executor_of_another_call() -> None:
    x = torch.ones(3).npu()
    code, executor = plan("aclnnAbs", tensor(x), tensor(x))
    assert code == 0 and launch("aclnnNeg", executor) != 0
    text = LIBRARY.aclGetRecentErrMsg().decode()
    assert text == "virtual NPU: aclnnNeg: the executor is of a call of aclnnAbs."
    assert launch("aclnnAbs", executor) == 0
    assert launch("aclnnAbs", executor) != 0  # it has run
    assert "has not run yet" in LIBRARY.aclGetRecentErrMsg().decode()


def test_error_of_the_work_comes_late() -> None:
    table, index = torch.ones(3, 2).npu(), torch.tensor([7]).npu()
    call("aclnnIndexSelect", tensor(table), integer(0), tensor(index), tensor(table[:1]))
    with pytest.raises(RuntimeError, match="aclnnIndexSelect: index out of range in self"):
        torch.npu.synchronize()


# ---- torch_npu's own kernels over them.

MISSING = """
import torch, torch_npu
x = torch.rand(2, 4).npu()
for call in (lambda: torch_npu.npu_ffn(x, x.t().contiguous(), x, "gelu"),
             lambda: torch.ops.npu.npu_mish(x), lambda: torch.ops.npu.npu_sort_v2(x)):
    try:
        print(call().cpu())
    except RuntimeError as error:
        print(str(error).splitlines()[-1])
print(torch_npu.npu_swiglu(x).shape, (x + 1).sum().item() > 8)
"""


def run(*program: str, **settings: str) -> str:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", **settings}
    ran = subprocess.run(
        [sys.executable, *program], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("queue", ["0", "1"])
@pytest.mark.parametrize("mode", ["1", "aclnn"])
def test_missing_operator_is_an_error_of_its_call(queue: str, mode: str) -> None:
    out = run("-c", MISSING, ANYOP_NPU=mode, TASK_QUEUE_ENABLE=queue)
    first = "is made of an operator of CANN's first kind (aclop), which is not supported."
    assert out.splitlines() == [
        "virtual NPU: aclnnFFNV2 is not supported.",
        f"virtual NPU: npu::npu_mish {first}",
        f"virtual NPU: npu::npu_sort_v2 {first}",
        "torch.Size([2, 2]) True",
    ]


def test_scripts() -> None:
    assert torch.ops.anyop_npu.wrong_scripts() == ""


@pytest.mark.parametrize("queue", ["0", "1"])
def test_torch_npus_own_kernels(queue: str, request: pytest.FixtureRequest) -> None:
    program = str(Path(aclnn_cases.__file__))
    out = json.loads(run(program, ANYOP_NPU="aclnn", TASK_QUEUE_ENABLE=queue).splitlines()[-1])
    assert out["wrong"] == []
    assert len(out["called"]) > 300
    tests = [str(file) for file in sorted(request.path.parent.glob("test_aclnn_*.py"))]
    program = f"import pytest; pytest.main(['-q', *{tests}])"
    seen = run("-c", f"from anyop.npu import operators; {program}; print(*operators.called())")
    here = set(Path(__file__).read_text().replace('"', " ").split())
    names = operators.operators()
    assert len(names) > 380
    untested = set(names) - set(out["called"]) - set(seen.splitlines()[-1].split()) - here
    assert untested == set()
