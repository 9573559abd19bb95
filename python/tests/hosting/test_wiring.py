# SPDX-License-Identifier: Apache-2.0
"""Gradients called as hosts call them, on NumPy arrays, beside finite differences."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest
from anyop.hosting.facts import Operator
from anyop.hosting.gradient import Gradient, Wording, gradient_of, no_gradient, refuse_missing
from numpy_calls import DIFFERENTIABLE, call, example

WORDING = Wording("is differentiated", lambda name: f"stop({name})", "a stop around the call")
FORMS = [(op, form) for op in DIFFERENTIABLE for form in range(len(op.contract["forms"]))]
IDS = [f"{op.short_name}-{form}" for op, form in FORMS]


def differentiable(op: Operator, form: int) -> tuple[Gradient, list[Any]]:
    """The gradient of an operator, and a call that it takes too."""
    gradient = gradient_of(op)
    assert gradient
    values = example(op, form, "f32", words=True)
    refuse_missing(op, values, gradient.targets, WORDING)
    return gradient, values


def upstream(op: Operator, results: list[Any]) -> list[Any]:
    """A random gradient of each result that has one."""
    random = np.random.default_rng(7)
    assert op.wiring
    return [
        np.asarray(random.standard_normal(r.shape), r.dtype) if i in op.wiring.results else None
        for i, r in enumerate(results)
    ]


def gradients(gradient: Gradient, values: list[Any], results: list[Any], dy: list[Any]) -> Any:
    arguments = gradient.arguments(
        gradient.keep(values, results), dy, lambda r: np.zeros_like(results[r])
    )
    return gradient.by_parameter(call(Operator(gradient.operator), arguments))


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_a_gradient_is_the_slope(op: Operator, form: int) -> None:
    gradient, values = differentiable(op, form)
    results = call(op, values)
    dy = upstream(op, results)
    slopes = gradients(gradient, values, results, dy)
    random = np.random.default_rng(8)

    def loss(at: int, moved: np.ndarray) -> float:
        made = call(op, [moved if i == at else v for i, v in enumerate(values)])
        pairs = [(r, d) for r, d in zip(made, dy, strict=True) if d is not None]
        return float(sum((r.astype(np.float64) * d).sum() for r, d in pairs))

    for target in gradient.targets:
        value = values[target]
        if value is None:
            assert slopes[target] is None
            continue
        assert value.dtype == np.float32
        step = np.float32(1e-2)
        way = np.asarray(random.standard_normal(value.shape), np.float32)
        ahead, behind = (np.asarray(value + way * s, np.float32) for s in (step, -step))
        rise = loss(target, ahead) - loss(target, behind)
        slope = float((slopes[target].astype(np.float64) * way).sum())
        np.testing.assert_allclose(rise / (2 * step), slope, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.short_name)
def test_only_what_is_wanted_is_computed(op: Operator) -> None:
    gradient, values = differentiable(op, -1)
    results = call(op, values)
    kept = gradient.keep(values, results)
    everything = [id(v) for v in (*values, *results)]
    assert all(k is None or id(k) in everything for k in kept)
    arguments = gradient.arguments(kept, upstream(op, results), lambda r: np.zeros_like(results[r]))
    backward = Operator(gradient.operator)
    full = gradient.by_parameter(call(backward, arguments))
    for target in gradient.targets if gradient.takes_mask else ():
        wanted = gradient.wanted([target])
        assert wanted == [t == target for t in gradient.targets]
        out = tuple(None if is_wanted else False for is_wanted in wanted)
        made = gradient.by_parameter(call(backward, arguments, out=out))
        for other, value in made.items():
            assert value is None or other == target
        np.testing.assert_array_equal(made[target], full[target])


def test_results_that_nothing_used_are_zeros_or_absent() -> None:
    norm = gradient_of(Operator("anyop.rms_norm"))
    assert norm
    kept = norm.keep(["x", "weight", 1e-6, 0.0], ["y"])
    assert norm.arguments(kept, [None], str) == ["0", "x", "weight", 1e-6, 0.0]
    assert norm.arguments(kept, ["dy"], str) == ["dy", "x", "weight", 1e-6, 0.0]
    attention = gradient_of(Operator("anyop.attention"))
    assert attention
    may_be_absent = [s for s in attention.sources if s[0] == "result_gradient" and s[2]]
    assert may_be_absent, "the gradient of lse is optional"
    kept = [None] * len(attention.sources)
    made = attention.arguments(kept, [None] * 9, lambda r: f"zeros {r}")
    for (kind, index, is_optional), value in zip(attention.sources, made, strict=True):
        is_zeros = kind == "result_gradient" and not is_optional
        assert value == (f"zeros {index}" if is_zeros else None)


def test_what_a_gradient_would_lack_is_refused() -> None:
    linear, rope = Operator("anyop.linear"), Operator("anyop.rope")
    x = np.ones((2, 4), np.float32)
    values = [x, x, None, "relu"]
    assert values[3] in linear.params[3].words
    with pytest.raises(NotImplementedError) as error:
        refuse_missing(linear, values, [0], WORDING)
    assert str(error.value) == (
        "linear: activation is 'relu', but must be 'none' where a gradient is needed, because "
        "linear_backward takes no other. Try a stop around the call."
    )
    table = [p.name for p in rope.params].index("cos_sin_cache")
    with pytest.raises(NotImplementedError) as error:
        refuse_missing(rope, [x] * len(rope.params), [0, table], WORDING)
    assert str(error.value) == (
        "rope: cos_sin_cache is differentiated, but rope has no gradient for it. "
        "Try stop(cos_sin_cache)."
    )
    anyop.define(
        "step_backward(dy: f32[n], way: 'up'?) -> (dx: f32[n]?)",
        lambda dy, way: dy,
        library="wiring",
    )
    anyop.define(
        "step(x: f32[n], way: 'up' | 'down'?) -> (y: f32[n])",
        lambda x, way: x,
        library="wiring",
        gradient="step_backward",
    )
    step = Operator("wiring.step")
    assert step.wiring and step.wiring.words == {1: ("up",)}
    for word in ("up", None):
        refuse_missing(step, [x, word], [0], WORDING)
    with pytest.raises(NotImplementedError, match="step: way is 'down', but must be 'up' where"):
        refuse_missing(step, [x, "down"], [0], WORDING)


def test_an_operator_without_a_gradient_says_so() -> None:
    x = np.ones((2, 4), np.float32)
    without = Operator("anyop.rms_norm_backward")
    assert gradient_of(without) is None
    refuse_missing(without, [x] * 5, [0], WORDING)
    assert no_gradient(without, WORDING) == (
        "rms_norm_backward: it has no gradient, but one was asked for. Try a stop around the call."
    )
