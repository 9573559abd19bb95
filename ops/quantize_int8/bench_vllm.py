# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def static(side: Any, a: Any) -> Any:
    q = side.torch.empty_like(a.x, dtype=side.torch.int8)
    return partial(side.ops.static_scaled_int8_quant, q, a.x, a.scale, None), q


def dynamic(side: Any, a: Any, has_zero: bool = False) -> Any:
    t = side.torch
    q, scale = t.empty_like(a.x, dtype=t.int8), t.empty(len(a.x), 1)
    zero = t.empty(len(a.x), 1, dtype=t.int32) if has_zero else None
    return partial(side.ops.dynamic_scaled_int8_quant, q, a.x, scale, zero), q


def dynamic_with_zeros(side: Any, a: Any) -> Any:
    return dynamic(side, a, True)
