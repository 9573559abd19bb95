# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def experts(side: Any, a: Any) -> Any:
    """With weights packed for tiles where the machine has them."""
    t = side.torch
    isa = "amx" if t.cpu._is_amx_tile_supported() else "vec"
    packed = []
    for weight in (a.w13, a.w2):
        packed.append(t.empty_like(weight))
        side.ops.prepack_moe_weight(weight, packed[-1], isa)
    out, name = t.empty_like(a.x), {"silu": "silu", "swiglu": "swigluoai"}[a.activation]
    run = partial(
        side.ops.cpu_fused_moe, out, a.x, *packed, None, None, a.weights, a.ids, False, name, isa
    )
    return run, out
