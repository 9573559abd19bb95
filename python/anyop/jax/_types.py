# SPDX-License-Identifier: Apache-2.0
"""JAX's dtypes and anyop's names of them.

Where JAX runs without 64-bit types (`jax_enable_x64` is off, as it is by default), a result of 64
bits is one of 32: i64 becomes i32, f64 f32. It is computed in 64 bits all the same; an integer that
does not fit is an error when the call runs.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from anyop import _anyop
from anyop.hosting.shapes import DTypes

_NAMES = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u8", "bool")
_BY_NAME: dict[str, Any] = {
    **{name: np.dtype(_anyop.numpy_dtype(name)) for name in _NAMES if name[:2] not in ("bf", "f8")},
    "bf16": np.dtype(jax.numpy.bfloat16),
    "f8e4m3": np.dtype(jax.numpy.float8_e4m3fn),
    "f8e5m2": np.dtype(jax.numpy.float8_e5m2),
}

DTYPES = DTypes({dtype: name for name, dtype in _BY_NAME.items()})


def result_dtype(name: str) -> Any:
    """The dtype that a result has in JAX, as it is set now."""
    return jax.dtypes.canonicalize_dtype(_BY_NAME[name])
