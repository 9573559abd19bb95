# SPDX-License-Identifier: Apache-2.0
"""A host of nothing but `anyop.hosting` and NumPy: a tape that differentiates any operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from anyop.hosting import binding
from anyop.hosting.facts import Operator
from anyop.hosting.gradient import Gradient, Wording, gradient_of, no_gradient, refuse_missing
from numpy_calls import call

WORDING = Wording("is on the tape", lambda name: f"{name}.array", "a call off the tape")


class Traced:
    """An array whose gradient is wanted."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.gradient: Any = np.zeros_like(array)


class Tape:
    """Calls in the order in which they were made."""

    def __init__(self) -> None:
        self.steps: list[tuple[Gradient, list[Any], dict[int, Traced], list[Any]]] = []

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        op = Operator(f"anyop.{name}")
        bound = binding.bind(op, args, kwargs).values
        traced = {i: t for i, _, t in binding.tensors(op, bound, Traced)}
        values = [v.array if isinstance(v, Traced) else v for v in bound]
        gradient = gradient_of(op)
        if gradient is None:
            raise NotImplementedError(no_gradient(op, WORDING))
        refuse_missing(op, values, traced, WORDING)
        results = call(op, values)
        made = [None if r is None else Traced(r) for r in results]
        self.steps.append((gradient, gradient.keep(values, results), traced, made))
        return made[0] if len(made) == 1 else made

    def backward(self, last: Traced) -> None:
        last.gradient = np.ones_like(last.array)
        for gradient, kept, traced, made in reversed(self.steps):
            dy = [None if m is None else m.gradient for m in made]
            arguments = gradient.arguments(kept, dy, lambda r, m=made: np.zeros_like(m[r].array))
            wanted = gradient.wanted(traced)
            out = tuple(None if w else False for w in wanted)
            options = {"out": out} if gradient.takes_mask else {}
            slopes = call(Operator(gradient.operator), arguments, **options)
            for i, slope in gradient.by_parameter(slopes).items():
                if i in traced:
                    traced[i].gradient = traced[i].gradient + slope


def block(tape: Tape, x: Any, residual: Any, w: Any, up: Any, down: Any) -> Traced:
    y, total = tape.call("add_rms_norm", x, residual, w)
    hidden = tape.call("silu_and_mul", tape.call("linear", y, weight=up))
    made: Traced = tape.call("add", total, tape.call("linear", hidden, down))
    return made


def test_a_tape_differentiates_a_block() -> None:
    random = np.random.default_rng(1)
    shapes = [(3, 16), (3, 16), (16,), (48, 16), (16, 24)]
    arrays = [random.standard_normal(s).astype(np.float32) for s in shapes]
    tape, leaves = Tape(), [Traced(a) for a in arrays]
    tape.backward(block(tape, *leaves))
    for at, leaf in enumerate(leaves):
        way = random.standard_normal(leaf.array.shape).astype(np.float32) * np.float32(1e-2)
        ends = []
        for sign in (1, -1):
            moved = [Traced(a + sign * way if i == at else a) for i, a in enumerate(arrays)]
            ends.append(float(block(Tape(), *moved).array.astype(np.float64).sum()))
        slope = float((leaf.gradient.astype(np.float64) * way).sum())
        np.testing.assert_allclose(ends[0] - ends[1], 2 * slope, rtol=2e-2, atol=1e-3)


def test_what_the_tape_cannot_differentiate_is_said_by_name() -> None:
    x = np.ones((2, 4), np.float32)
    with pytest.raises(NotImplementedError) as error:
        Tape().call("linear", Traced(x), x, activation="relu")
    assert str(error.value) == (
        "linear: activation is 'relu', but must be 'none' where a gradient is needed, because "
        "linear_backward takes no other. Try a call off the tape."
    )
    with pytest.raises(NotImplementedError) as error:
        Tape().call("sigmoid_backward", Traced(x), x)
    assert str(error.value) == (
        "sigmoid_backward: it has no gradient, but one was asked for. Try a call off the tape."
    )
