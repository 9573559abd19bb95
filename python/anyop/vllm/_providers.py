# SPDX-License-Identifier: Apache-2.0
"""The provider `anyop` of vLLM IR. vLLM reads the annotations of its functions as they are, which
would be texts if this file imported annotations from __future__.
"""

from typing import Any

import torch
from torch import Tensor

import anyop
from anyop.vllm import _native
from anyop.vllm._layers import FLOATS

PROVIDER = "anyop"


def _fits(what: str, x: Tensor, weight: Tensor | None, variance_size: int | None) -> bool:
    if x.dtype in FLOATS and variance_size is None and (weight is None or weight.dtype == x.dtype):
        return True
    kinds = f"x is {x.dtype}, its weight {None if weight is None else weight.dtype}"
    _native.note(what, kinds if variance_size is None else "the variance is that of a part")
    return False


def rms_norm_fits(
    x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return _fits("rms_norm", x, weight, variance_size)


def rms_norm(
    x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> Tensor:
    y: Tensor = anyop.rms_norm(x, weight, epsilon)
    return y


def fused_add_rms_norm_fits(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    return _fits("fused_add_rms_norm", x, weight, variance_size)


def fused_add_rms_norm(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    # A compiler plans memory itself, and better without writes.
    if torch.compiler.is_compiling():
        y, total = anyop.add_rms_norm(x, x_residual, weight, epsilon)
        return y, total
    anyop.add_rms_norm(x, x_residual, weight, epsilon, out=(x, x_residual))
    return x, x_residual


def provide(operators: dict[str, Any]) -> None:
    """Registers with the operators of vLLM IR, once. operators: vLLM's `IrOp.registry`."""
    made = {
        "rms_norm": (rms_norm, rms_norm_fits, False),
        "fused_add_rms_norm": (fused_add_rms_norm, fused_add_rms_norm_fits, True),
    }
    for name, (function, fits, inplace) in made.items():
        if PROVIDER not in operators[name].impls:
            register = operators[name].register_impl
            register(PROVIDER, supports_args=fits, inplace=inplace)(function)
