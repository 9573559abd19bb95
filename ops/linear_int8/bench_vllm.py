# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def handler(side: Any, a: Any, is_dynamic: bool = True, has_zero: bool = False) -> Any:
    """oneDNN with weights that it has packed; rows of x have scales of their own, or one."""
    scales = a.weight_scale.reshape(1, -1)
    made = side.ops.create_onednn_scaled_mm_handler(
        a.weight.t(), scales, a.y.dtype, is_dynamic, has_zero, 128
    )
    return side.torch.tensor(made, dtype=side.torch.int64)


def product(side: Any, a: Any) -> Any:
    t, number = side.torch, handler(side, a)
    q = t.empty_like(a.x, dtype=t.int8)
    scale = t.empty(len(a.x), 1)

    def run() -> None:
        side.ops.dynamic_scaled_int8_quant(q, a.x, scale, None)
        side.ops.onednn_scaled_mm(a.y, q, scale, None, None, None, number)

    return run, a.y


def of_bytes(side: Any, a: Any, is_dynamic: bool, has_zero: bool) -> Any:
    """x is bytes. Of dynamic zero points vLLM's Python makes a part before."""
    number, zero = handler(side, a, is_dynamic, has_zero), a.x_zero if has_zero else None
    part = None
    if is_dynamic and has_zero:
        part = a.weight.sum(1, dtype=side.torch.float32).mul(a.weight_scale)[None]
    run = partial(side.ops.onednn_scaled_mm, a.y, a.x, a.x_scale, zero, part, None, number)
    return run, a.y


def dynamic(side: Any, a: Any) -> Any:
    return of_bytes(side, a, True, False)


def dynamic_with_zeros(side: Any, a: Any) -> Any:
    return of_bytes(side, a, True, True)


def static(side: Any, a: Any) -> Any:
    return of_bytes(side, a, False, False)


def static_with_zero(side: Any, a: Any) -> Any:
    return of_bytes(side, a, False, True)


def quantized(side: Any, a: Any) -> Any:
    number = handler(side, a)
    run = partial(side.ops.onednn_scaled_mm, a.y, a.x, a.x_scale, None, None, None, number)
    return run, a.y
