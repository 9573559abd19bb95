# SPDX-License-Identifier: Apache-2.0
"""XLA's threads take subnormal numbers for zero: the results of calls are those of NumPy arrays."""

from __future__ import annotations

from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from subnormal_calls import CALLS, SCALE, TINY, check


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_arrays(name: str) -> None:
    def f64(x: Any, s: Any) -> Any:
        return CALLS[name](x, s, np.float64)

    x, scale = jnp.asarray(TINY), jnp.asarray(SCALE)
    check(name, f64(x, scale))
    check(name, jax.jit(f64)(x, scale))


def test_functions_of_python_compute_as_with_arrays() -> None:
    @anyop.define("halved(x: f32[n]) -> (y: f32[n])", library="subnormals")
    def halved(x: Any) -> Any:
        return x / np.float32(2)

    x = np.float32([1e-38, 3e-40])
    np.testing.assert_array_equal(halved(jnp.asarray(x)), halved(x))
