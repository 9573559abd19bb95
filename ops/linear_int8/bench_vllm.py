# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def handler(side: Any, a: Any) -> Any:
    """oneDNN with weights that it has packed; rows of x have scales of their own."""
    scales = a.weight_scale.reshape(1, -1)
    made = side.ops.create_onednn_scaled_mm_handler(
        a.weight.t(), scales, a.y.dtype, True, False, 128
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


def quantized(side: Any, a: Any) -> Any:
    number = handler(side, a)
    run = partial(side.ops.onednn_scaled_mm, a.y, a.x, a.x_scale, None, None, None, number)
    return run, a.y
