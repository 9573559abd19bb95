# SPDX-License-Identifier: Apache-2.0
"""Batches of calls as one call, on NumPy arrays, beside a loop."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest
from anyop.hosting.batching import Batch, batch
from anyop.hosting.facts import Operator
from anyop.symbolic import TensorType
from numpy_calls import OPERATORS, call, example

FORMS = [
    (op, form)
    for op in OPERATORS
    for form in range(len(op.contract["forms"]))
    if op.results and not op.written
]


def defined(name: str, signature: str, function: Any, **options: Any) -> Operator:
    anyop.define(name + signature, function, library="batching", **options)
    return Operator(f"batching.{name}")


def described(values: list[Any]) -> list[Any]:
    """Arrays as types; all else as it is."""
    return [
        described(v)
        if isinstance(v, list) and v and isinstance(v[0], np.ndarray)
        else TensorType(anyop._anyop.dtype_name(v.dtype), v.shape)
        if isinstance(v, np.ndarray)
        else v
        for v in values
    ]


def together(op: Operator, values: list[Any], batched: list[int], expand: tuple[int, ...]) -> Any:
    """The calls as one, as `Batch` says it; the batch is two times the same."""

    def longer(v: Any) -> Any:
        return [longer(e) for e in v] if isinstance(v, list) else np.stack([v, v])

    both = [longer(v) if i in (*batched, *expand) else v for i, v in enumerate(values)]
    return call(op, both)


@pytest.mark.parametrize(
    ("op", "form"), FORMS, ids=[f"{op.short_name}-{form}" for op, form in FORMS]
)
def test_a_batch_equals_a_loop(op: Operator, form: int) -> None:
    values = example(op, form, "f32")
    arrays = [i for i, v in enumerate(values) if isinstance(v, np.ndarray)]
    expected = call(op, values)
    for batched in (arrays[:1], arrays):
        joined = batch(op, described(values), batched)
        if joined.why or not batched:
            continue
        made = together(op, values, batched, joined.expand)
        for ours, one in zip(made, expected, strict=True):
            if one is not None:
                np.testing.assert_allclose(
                    ours.astype(np.float64), np.stack([one, one]).astype(np.float64), rtol=1e-5
                )


def test_what_joins_and_what_must_be_repeated() -> None:
    x, row = TensorType("f32", (2, 8)), TensorType("f32", (8,))
    norm = Operator("anyop.rms_norm")
    assert batch(norm, [x, row, 1e-6, 0.0], [0]) == Batch("", ())
    assert batch(norm, [x, row, 1e-6, 0.0], [0, 1]) == Batch("weight has no leading dimensions")
    add_norm = Operator("anyop.add_rms_norm")
    assert batch(add_norm, [x, x, row, 1e-6, 0.0], [1]) == Batch("", (0,))
    cache = Operator("anyop.reshape_and_cache")
    example = [TensorType("f32", (3, 2, 8))] * 2 + [TensorType("f32", (2, 4, 2, 8))] * 2
    rest = [p.default for p in cache.params[5:]]
    joined = batch(cache, [*example, TensorType("i64", (3,)), *rest], [0])
    assert joined.why.endswith("is written")


def test_lists_are_repeated_but_not_batched() -> None:
    op = defined(
        "total",
        "(x: T[..., n], rest: T[..., n]*) -> (y: T[..., n]) where T in f32 | f64",
        lambda x, rest: x + sum(rest),
    )
    values = [np.ones((2, 3)), [np.full((2, 3), 2.0), np.full((2, 3), 3.0)]]
    joined = batch(op, described(values), [0])
    assert joined == Batch("", (1,))
    (made,) = together(op, values, [0], joined.expand)
    np.testing.assert_array_equal(made, np.full((2, 2, 3), 6.0))
    assert batch(op, described(values), [1]).why == "rest is a list"


def test_a_signature_that_measures_a_tensor_is_asked_for_each_example() -> None:
    op = defined(
        "numbered",
        "(x: f32[..., n], count: int) -> (y: f32[..., n]) where count == rows(x)",
        lambda x, count: x * count,
    )
    example = [TensorType("f32", (5, 3)), 5]
    assert batch(op, example, [0]).why == (
        "the signature says rows(x), which the batch would change"
    )


def test_one_dimension_more_must_not_be_another_form() -> None:
    op = defined(
        "flipped",
        "(x: f32[n]) -> (y: f32[n])\nflipped(x: f32[..., n, m]) -> (y: f32[..., n, m])",
        lambda x: -x if x.ndim == 1 else x,
    )
    vector, matrix = TensorType("f32", (3,)), TensorType("f32", (2, 3))
    assert batch(op, [vector], [0]).why == "x has no leading dimensions"
    assert batch(op, [matrix], [0]) == Batch("")
    op = defined(
        "turned",
        "(x: f32[n, m]) -> (y: f32[n, m])\nturned(x: f32[..., n]) -> (y: f32[..., n])",
        lambda x: -x if x.ndim == 2 else x,
    )
    assert batch(op, [vector], [0]).why == (
        "with one more dimension it is another form of the operator"
    )
    assert batch(op, [TensorType("f32", (2, 2, 3))], [0]) == Batch("")


def test_results_need_leading_dimensions() -> None:
    op = defined("length", "(x: f32[..., n]) -> (y: f32[n])", lambda x: x.reshape(-1, 2)[0])
    assert batch(op, [TensorType("f32", (3, 2))], [0]).why == "y has no leading dimensions"
