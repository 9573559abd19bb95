# SPDX-License-Identifier: Apache-2.0
"""JAX's dtypes and anyop's names of them.

Where JAX runs without 64-bit types (`jax_enable_x64` is off, as it is by default), a result of 64
bits is one of 32: i64 becomes i32, u64 u32, f64 f32, and c128 becomes c64. It is computed in 64
bits all the same; an integer that does not fit is an error when the call runs.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from anyop.hosting.shapes import DTypes

DTYPES = DTypes.of_module("JAX", jax.numpy, np.dtype)


def result_dtype(name: str) -> Any:
    """The dtype that a result has in JAX, as it is set now."""
    return jax.dtypes.canonicalize_dtype(DTYPES.dtype(name))
