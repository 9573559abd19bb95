# SPDX-License-Identifier: Apache-2.0
"""Gradients of operators that torch_npu adds, against torch's autograd of plain formulas. Which
operators have one is torch_npu's to say: its own kernels for Autograd are asked, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from plain import DTYPES, TOLERANCE, rand

O = torch.ops.npu  # noqa: E741
Tensors = list[torch.Tensor]


def kernels() -> dict[str, str]:
    """Operators, with what torch_npu has for Autograd: a formula, an error, calls of others with
    formulas, or nothing.
    """
    kinds = {"VariableType": "formula", "ErrorFallback": "error", "CustomRegisterSchema": "calls"}
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("npu::"):
            continue
        dump = torch._C._dispatch_dump(name)
        lines = [line for line in dump.splitlines() if line.startswith("AutogradPrivateUse1")]
        text = lines[0] if lines else ""
        kind = [kind for word, kind in kinds.items() if word in text]
        found[name.removeprefix("npu::")] = kind[0] if kind else text
    return found


KERNELS = kernels()
DERIVED = sorted(name for name, kind in KERNELS.items() if kind == "formula")


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, True) + 1e-6) * w


def deep_norm(x: torch.Tensor, gx: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x * 0.3 + gx, (6,), w, b, 1e-6)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def geglu(x: torch.Tensor, left: bool) -> torch.Tensor:
    a, b = reversed(x.chunk(2, -1)) if left else x.chunk(2, -1)
    return a * F.gelu(b, approximate="tanh")


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairs: bool) -> torch.Tensor:
    if pairs:
        other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    else:
        other = torch.cat([-x[..., 4:], x[..., :4]], -1)
    return x * cos + other * sin


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=0.3)


CHOSEN = torch.tensor([[1, 0], [2, 1], [0, 2]], dtype=torch.int32)
ORDER = torch.argsort(torch.argsort(CHOSEN.reshape(-1), stable=True))
ATTENTION = [(2, 2, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)]

# An operator: sizes of its inputs, the call, and what it computes.
Case = tuple[list[tuple[int, ...]], Callable[..., Any], Callable[..., torch.Tensor]]
CASES: dict[str, list[Case]] = {
    "npu_rms_norm": [([(3, 4, 6), (6,)], lambda x, w: O.npu_rms_norm(x, w)[0], rms_norm)],
    "npu_add_layer_norm": [
        (
            [(3, 4, 6), (3, 4, 6), (6,), (6,)],
            lambda x, y, w, b: O.npu_add_layer_norm(x, y, w, b)[0],
            lambda x, y, w, b: F.layer_norm(x + y, (6,), w, b, 1e-5),
        ),
        (
            [(3, 4, 6), (3, 4, 6), (6,), (6,)],
            lambda x, y, w, b: sum(O.npu_add_layer_norm(x, y, w, b, 1e-5, True)[::3]),
            lambda x, y, w, b: F.layer_norm(x + y, (6,), w, b, 1e-5) + x + y,
        ),
    ],
    "npu_deep_norm": [
        ([(3, 4, 6), (3, 4, 6), (6,), (6,)], lambda *a: O.npu_deep_norm(*a)[2], deep_norm)
    ],
    "npu_swiglu": [
        ([(3, 8)], lambda x: O.npu_swiglu(x), swiglu),
        ([(8, 3)], lambda x: O.npu_swiglu(x, 0), lambda x: swiglu(x.t()).t()),
    ],
    "npu_geglu": [
        ([(3, 8)], lambda x: O.npu_geglu(x)[0], lambda x: geglu(x, False)),
        ([(3, 8)], lambda x: O.npu_geglu(x, -1, 1, True)[0], lambda x: geglu(x, True)),
    ],
    "npu_gelu": [
        ([(3, 8)], lambda x: O.npu_gelu(x), F.gelu),
        (
            [(3, 8)],
            lambda x: O.npu_gelu(x, approximate="tanh"),
            lambda x: F.gelu(x, approximate="tanh"),
        ),
    ],
    "npu_fast_gelu": [([(3, 8)], O.npu_fast_gelu, lambda x: x * torch.sigmoid(1.702 * x))],
    "fast_gelu": [([(3, 8)], O.fast_gelu, lambda x: x * torch.sigmoid(1.702 * x))],
    "npu_rotary_mul": [
        (
            [(2, 3, 2, 8), (1, 3, 1, 8), (1, 3, 1, 8)],
            O.npu_rotary_mul,
            lambda *a: rotated(*a, False),
        ),
        (
            [(2, 3, 2, 8), (2, 3, 1, 8), (2, 3, 1, 8)],
            lambda *a: O.npu_rotary_mul(*a, "interleave"),
            lambda *a: rotated(*a, True),
        ),
    ],
    "npu_moe_token_permute": [
        (
            [(3, 4)],
            lambda x: O.npu_moe_token_permute(x, CHOSEN.npu())[0],
            lambda x: x[torch.argsort(CHOSEN.reshape(-1), stable=True) // 2],
        ),
        (
            [(3, 4)],
            lambda x: O.npu_moe_token_permute(x, CHOSEN.npu(), 4)[0],
            lambda x: x[(torch.argsort(CHOSEN.reshape(-1), stable=True) // 2)[:4]],
        ),
    ],
    "_npu_moe_token_unpermute": [
        (
            [(6, 4), (3, 2)],
            lambda x, p: torch_npu.npu_moe_token_unpermute(x, ORDER.int().npu(), p),
            lambda x, p: (x[ORDER].reshape(3, 2, 4) * p.unsqueeze(-1)).sum(1),
        ),
        (
            [(6, 4)],
            lambda x: torch_npu.npu_moe_token_unpermute(x, ORDER.int().npu()),
            lambda x: x[ORDER],
        ),
    ],
    "npu_linear": [([(3, 8), (5, 8), (5,)], O.npu_linear, F.linear)],
    "npu_dtype_cast": [([(3, 8)], lambda x: O.npu_dtype_cast(x, torch.float32), lambda x: x)],
    "_npu_dtype_cast": [([(3, 8)], lambda x: O._npu_dtype_cast(x, torch.float32), lambda x: x)],
    **{
        f"npu_fusion_attention{version}": [
            (
                ATTENTION,
                lambda *a, name=f"npu_fusion_attention{version}": getattr(O, name)(
                    *a, 2, "BNSD", scale=0.3
                )[0],
                attended,
            )
        ]
        for version in ("", "_v2", "_v3")
    },
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "k"), [(n, k) for n, c in CASES.items() for k in range(len(c))])
def test_gradients(name: str, k: int, dtype: torch.dtype) -> None:
    sizes, call, means = CASES[name][k]
    values = [rand(*size, seed=i, dtype=dtype) for i, size in enumerate(sizes)]
    there = [value.npu().requires_grad_() for value in values]
    here = [value.double().requires_grad_() for value in values]
    got, want = call(*there), means(*here)
    assert got.requires_grad and got.shape == want.shape
    grad = rand(*want.shape, seed=9, dtype=dtype)
    got.backward(grad.npu().to(got.dtype))
    want.backward(grad.double())
    tolerance = 4 * TOLERANCE[dtype]
    for i, (a, b) in enumerate(zip(there, here, strict=True)):
        assert a.grad is not None and a.grad.dtype == dtype, f"input {i}"
        torch.testing.assert_close(a.grad.cpu().double(), b.grad, rtol=tolerance, atol=tolerance)


# ---- All of them.


def argument(kind: str, name: str) -> Any:
    """A value of a type of a schema, which the operator may take or refuse."""
    if kind.startswith("Optional["):
        return None
    if kind == "Tensor":
        return torch.ones(2, 4, 8, device="npu", requires_grad=True)
    if kind == "List[Tensor]":
        return [torch.ones(4, 8, device="npu", requires_grad=True)]
    named = {"layout": "BSH", "approximate": "none", "mode": "half", "dtype": torch.float32}
    for word, value in named.items():
        if word in name:
            return value
    values: dict[str, Any] = {
        "int": 1, "float": 1.0, "bool": False, "str": "", "number": 1, "List[int]": [1, 1],
        "List[bool]": [False, False], "List[float]": [1.0], "Device": torch.device("npu"),
    }  # fmt: skip
    return values[kind]


def leaves(value: Any) -> Tensors:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in leaves(v)] if isinstance(value, (list, tuple)) else []


@pytest.mark.parametrize("name", DERIVED)
def test_no_gradient_is_left_out_in_silence(name: str) -> None:
    """What torch_npu derives has a gradient that is compared above, or says what is missing."""
    base, _, overload = name.partition(".")
    run = getattr(getattr(O, base), overload or "default")
    given = [
        argument(str(a.type), a.name) for a in run._schema.arguments if not a.has_default_value()
    ]
    given = [
        t.detach().clone().requires_grad_() if isinstance(t, torch.Tensor) else t for t in given
    ]
    if name.endswith("_"):  # in place: no leaf
        given = [t * 1 if isinstance(t, torch.Tensor) else t for t in given]
    try:
        results = [t for t in leaves(run(*given)) if t.dtype.is_floating_point and t.numel() > 0]
        torch.npu.synchronize()
    except Exception as error:  # its text is of torch_npu or of the virtual NPU
        assert str(error).strip()
        return
    assert not results or any(t.requires_grad for t in results), f"{name} gives no gradient"
    if not results:
        return
    try:
        sum(t.float().sum() for t in results if t.requires_grad).backward()
        torch.npu.synchronize()
    except RuntimeError as error:
        assert re.search(r"virtual NPU: .*not supported|derivative", str(error)), error
        return
    assert name in CASES or name in WITHOUT_NUMBERS, f"the gradient of {name} is compared nowhere"


# What moves bytes alone, and what is another of these.
WITHOUT_NUMBERS = ("_npu_format_cast", "_npu_format_cast.aclnn", "_npu_format_cast.input_dtype")


def test_what_torch_npu_derives_is_its_own_to_say() -> None:
    """Nothing is registered beside it: where it has no kernel, an NPU gives no gradient either, and
    torch warns of it.
    """
    assert len(DERIVED) > 50
    assert set(KERNELS.values()) == {"formula", "error", "calls", ""}
    x = torch.ones(2, 8, device="npu", requires_grad=True)
    gamma = torch.ones(8, device="npu", requires_grad=True)
    for name in (
        "npu_gemma_rms_norm", "npu_gelu_mul", "npu_clipped_swiglu", "npu_grouped_matmul",
        "npu_group_norm_silu", "npu_fused_infer_attention_score",
    ):  # fmt: skip
        assert KERNELS[name] == ""
    result = O.npu_gemma_rms_norm(x, gamma)[0]  # of torch: a warning, and no gradient
    assert "WarnNotImplemented" in result.grad_fn.name()
    for name in ("npu_add_rms_norm", "npu_moe_gating_top_k_softmax"):
        assert KERNELS[name] == "error"
    with pytest.raises(
        RuntimeError, match="derivative for npu::npu_add_rms_norm is not implemented"
    ):
        O.npu_add_rms_norm(x, x, gamma)[0].sum().backward()
