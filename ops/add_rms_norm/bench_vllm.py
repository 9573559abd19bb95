# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any

EPS = 1e-5


def both(side: Any, a: Any) -> Any:
    """Over its inputs; the first call's result is kept for comparison."""
    x, residual = a.x.clone(), a.residual.clone()
    side.ops.fused_add_rms_norm(x, residual, a.weight, EPS)
    return partial(side.ops.fused_add_rms_norm, a.x, a.residual, a.weight, EPS), x
