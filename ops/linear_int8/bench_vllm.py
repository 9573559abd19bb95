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


def product_with_zeros(side: Any, a: Any) -> Any:
    t, number = side.torch, handler(side, a, has_zero=True)
    adjusted = a.weight.sum(1, dtype=t.float32).mul(a.weight_scale)[None]  # as vLLM's Python does
    q = t.empty_like(a.x, dtype=t.int8)
    scale, zero = t.empty(len(a.x), 1), t.empty(len(a.x), 1, dtype=t.int32)

    def run() -> None:
        side.ops.dynamic_scaled_int8_quant(q, a.x, scale, zero)
        side.ops.onednn_scaled_mm(a.y, q, scale, zero, adjusted, None, number)

    return run, a.y


def static(side: Any, a: Any) -> Any:
    t, number = side.torch, handler(side, a, is_dynamic=False)
    q = t.empty_like(a.x, dtype=t.int8)

    def run() -> None:
        side.ops.static_scaled_int8_quant(q, a.x, a.x_scale, None)
        side.ops.onednn_scaled_mm(a.y, q, a.x_scale, None, None, None, number)

    return run, a.y


def static_with_zero(side: Any, a: Any) -> Any:
    t, number = side.torch, handler(side, a, is_dynamic=False, has_zero=True)
    q = t.empty_like(a.x, dtype=t.int8)

    def run() -> None:
        side.ops.static_scaled_int8_quant(q, a.x, a.x_scale, a.x_zero)
        side.ops.onednn_scaled_mm(a.y, q, a.x_scale, a.x_zero, None, None, number)

    return run, a.y


def quantized(side: Any, a: Any) -> Any:
    number = handler(side, a)
    run = partial(side.ops.onednn_scaled_mm, a.y, a.x, a.x_scale, None, None, None, number)
    return run, a.y
