# SPDX-License-Identifier: Apache-2.0
"""Generated calls with JAX arrays, and what the same calls return on NumPy's."""

from __future__ import annotations

from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import numpy_calls
from anyop.hosting.facts import Operator
from anyop.jax._types import DTYPES


def to_jax(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return jnp.asarray(value)
    return [to_jax(v) for v in value] if isinstance(value, list) and holds_arrays(value) else value


def holds_arrays(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], np.ndarray)


def copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [copied(v) for v in value] if holds_arrays(value) else value


def narrow(array: Any) -> Any:
    """As JAX has it, which is without 64-bit types unless they are switched on."""
    if jax.config.jax_enable_x64:
        return array
    narrower = {"int64": np.int32, "float64": np.float32}
    return None if array is None else array.astype(narrower.get(array.dtype.name, array.dtype))


def example(op: Operator, form: int, dtype: str, words: bool = False) -> list[Any]:
    """An argument per parameter; arrays are of at most 32 bits, unless JAX takes more."""
    values = numpy_calls.example(op, form, dtype, words)
    made = []
    for value in values:
        if isinstance(value, np.ndarray):
            made.append(narrow(value))
        else:
            made.append([narrow(v) for v in value] if holds_arrays(value) else value)
    return made


def like(op: Operator) -> dict[str, Any]:
    return {} if op.needs_tensor else {"like": jax}


def wanted(op: Operator, values: list[Any]) -> list[Any]:
    """What the call writes, a list of arrays for a list, and then what it returns."""
    arrays = [copied(v) for v in values]
    made = numpy_calls.call(op, arrays)
    return [*(arrays[i] for i in op.written), *made]


def listed(op: Operator, made: Any) -> list[Any]:
    """What a call returned with JAX arrays, in the same order."""
    n = len(op.written) + len(op.results)
    if n == 1:
        return [made]
    return [] if n == 0 else list(made)


def assert_same(made: Any, theirs: Any) -> None:
    """Bit for bit, but for the width that JAX gives."""
    if theirs is None:
        assert made is None
    elif isinstance(theirs, list):
        assert len(made) == len(theirs)
        for one, other in zip(made, theirs, strict=True):
            assert_same(one, other)
    else:
        assert isinstance(made, jax.Array)
        theirs = narrow(theirs)
        assert made.dtype == theirs.dtype
        assert made.shape == theirs.shape
        one, other = np.asarray(made), np.asarray(theirs)
        np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8)) if (
            one.ndim and one.flags.c_contiguous and other.flags.c_contiguous
        ) else np.testing.assert_array_equal(one, other)


def call(op: Operator, values: list[Any]) -> list[Any]:
    return listed(op, op.function(*values, **like(op)))


def traced(op: Operator, values: list[Any], transform: Any = jax.jit) -> tuple[Any, list[Any]]:
    """The transformed function of the call's arrays, and these."""
    places = [
        (i, k)
        for i, v in enumerate(values)
        for k in (range(len(v)) if holds_arrays(v) else [-1] if isinstance(v, np.ndarray) else [])
    ]
    flat = [to_jax(values[i] if k < 0 else values[i][k]) for i, k in places]

    def function(*tensors: Any) -> list[Any]:
        own = [list(v) if holds_arrays(v) else v for v in values]
        for (i, k), tensor in zip(places, tensors, strict=True):
            if k < 0:
                own[i] = tensor
            else:
                own[i][k] = tensor
        return call(op, own)

    return transform(function), flat


FORMS = [
    (op, form, dtype)
    for op in numpy_calls.OPERATORS
    for form in range(len(op.contract["forms"]))
    for dtype in ("f32", "bf16")
]


def _dtypes(form: dict[str, Any]) -> set[str]:
    """All that a variable of the form's dtypes, or a parameter that is one, may be."""
    lists = [condition.partition(" in ")[2].split(" | ") for condition in form["conditions"]]
    return {dtype for names in lists for dtype in names if dtype in DTYPES.names.values()}


OTHER_DTYPES = [
    (op, form, dtype)
    for op in numpy_calls.OPERATORS
    for form, facts in enumerate(op.contract["forms"])
    for dtype in sorted(_dtypes(facts) - {"f32", "bf16"})
]


def holds(op: Operator, values: list[Any], dtype: str) -> bool:
    """Whether an array, or a parameter that names a dtype, is of this one."""
    arrays = [a for v in values for a in (v if holds_arrays(v) else [v])]
    return any(
        DTYPES.names[a.dtype] == dtype if isinstance(a, np.ndarray) else a == dtype for a in arrays
    )


def name_of(case: tuple[Operator, int, str]) -> str:
    op, form, dtype = case
    return f"{op.short_name}-{form}-{dtype}"


def find(op: Operator, form: int, dtype: str, words: bool = False) -> list[Any] | None:
    """The example of a form; None where none is accepted."""
    try:
        return example(op, form, dtype, words)
    except LookupError:
        return None


__all__ = ["anyop"]
