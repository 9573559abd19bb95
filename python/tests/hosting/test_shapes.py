# SPDX-License-Identifier: Apache-2.0
"""Calls that are described instead of made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from anyop import _anyop, symbolic
from anyop.hosting import binding, shapes
from anyop.hosting.facts import Operator
from anyop.symbolic import TensorType
from numpy_calls import OPERATORS, call, example

NAMES = shapes.DTypes({np.float32: "f32", np.float64: "f64"}, lambda d: f"numpy's {d.__name__}")
NORM, CAST = Operator("anyop.rms_norm"), Operator("anyop.cast")


def test_dtypes_have_names_or_are_refused() -> None:
    assert NAMES.name_of(NORM, "x", np.float64, (2, 3)) == "f64"
    assert NAMES.argument(CAST, "dtype", np.float32) == "f32"
    with pytest.raises(ValueError) as error:
        NAMES.name_of(NORM, "x", np.complex64, (2, 3))
    assert str(error.value) == (
        "rms_norm: x is numpy's complex64[2, 3], but anyop has no such dtype. "
        "Try a cast to f32 or i64."
    )
    with pytest.raises(ValueError) as error:
        NAMES.argument(CAST, "dtype", 3)
    assert str(error.value) == "cast: dtype is 3, but must be one of the dtypes f32, f64."


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.short_name)
def test_a_described_call_makes_what_a_call_makes(op: Operator) -> None:
    values = example(op, dtype="f32")

    def described(name: str, t: np.ndarray) -> Any:
        strides = tuple(s // t.itemsize for s in t.strides)
        return 0, _anyop.dtype_name(t.dtype), t.shape, strides

    dtypes = shapes.DTypes({name: name for name in ("f32", "f16", "bf16", "f64", "i64")})
    arguments = shapes.describe(op, values, described, dtypes)
    declined = binding.declined(op, values)
    planned = _anyop.plan_memory(op.name, *shapes.without_data(op, arguments, declined, {}))
    made = call(op, [np.copy(v) if isinstance(v, np.ndarray) else v for v in values])
    for result, (dtype, shape), is_declined in zip(made, planned, declined, strict=True):
        assert (result is None) == is_declined
        if result is not None:
            assert (_anyop.dtype_name(result.dtype), result.shape) == (dtype, shape)


def test_results_in_memory_of_the_caller_are_described_too() -> None:
    arguments = ["x", None, 1e-6, 0.0]
    assert shapes.without_data(NORM, arguments, [False], {}) == (tuple(arguments), (True,))
    assert shapes.without_data(NORM, arguments, [False], {0: "out"}) == (
        tuple(arguments), ("out",)
    )  # fmt: skip
    assert shapes.without_data(NORM, arguments, [True], {0: "out"})[1] == (False,)


def test_sizes_that_nobody_knows() -> None:
    assert shapes.sizes_of(TensorType("f32", (2, 3))) == (2, 3)
    assert shapes.sizes_of(TensorType("f32", None)) is None
    assert shapes.sizes_of(TensorType("f32", (2, symbolic.UNKNOWN))) is None
