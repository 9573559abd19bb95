# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any

EPS = 1e-5


def norm(side: Any, a: Any) -> Any:
    out = side.torch.empty_like(a.x)
    return partial(side.ops.rms_norm, out, a.x, a.weight, EPS), out
