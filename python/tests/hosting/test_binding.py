# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls, as hosts sort them."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop
from anyop.hosting import binding
from anyop.hosting.facts import Operator

NORM, ATTENTION = Operator("anyop.rms_norm"), Operator("anyop.attention")
X = np.ones((2, 4), np.float32)


def test_positions_keywords_and_defaults() -> None:
    defaults = [p.default for p in NORM.params]
    bound = binding.bind(NORM, [X], {"eps": 0.5, "policy": "cpu"})
    assert bound.values[0] is X
    assert bound.values[1:] == [None, 0.5, *defaults[3:]]
    assert (bound.out, bound.policy, bound.like) == (None, "cpu", None)
    assert binding.bind(NORM, [X, None, 0.5], {"out": X}).out is X


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [([], {}), ([X] * 9, {}), ([X], {"x": X}), ([X], {"epss": 1.0}), ([X], {"like": 3})],
)
def test_what_cannot_be_bound_is_refused_as_in_a_call(
    args: list[Any], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(anyop.Error) as bound:
        binding.bind(NORM, args, kwargs)
    with pytest.raises(anyop.Error) as called:
        anyop.rms_norm(*args, **kwargs)
    assert str(bound.value) == str(called.value)
    assert type(bound.value) is type(called.value)


def test_a_framework_that_has_checked_a_call_may_pass_more() -> None:
    values = binding.take(NORM, [X, None, 1.0, 0.0, [True]], {"output_mask": None})
    assert values[0] is X and values[2:] == [1.0, 0.0]
    assert binding.take(NORM, [X], {"eps": 0.25, "out": X})[2] == 0.25


def test_results_are_declined_by_masks_and_absent_arguments() -> None:
    op = Operator("anyop.rms_norm_backward")
    assert binding.declined(op, [X, X, X, 1e-6, 0.0]) == [False, False]
    assert binding.declined(op, [X, X, None, 1e-6, 0.0]) == [False, True]
    assert binding.declined(op, [X, X, X, 1e-6, 0.0], [False, True]) == [True, False]
    with pytest.raises(ValueError) as error:
        binding.declined(op, [X, X, X, 1e-6, 0.0], [True])
    assert str(error.value) == (
        "rms_norm_backward: output_mask has 1 elements, but there are 2 results."
    )


def test_tensors_have_the_names_of_messages() -> None:
    lists = next(
        op
        for op in map(Operator, anyop._anyop.functions())
        if any(p.kind == "tensors" for p in op.params)
    )
    values = [[X, X] if p.kind == "tensors" else None for p in lists.params]
    found = [(i, name) for i, name, t in binding.tensors(lists, values, np.ndarray) if t is X]
    at, p = next((i, p) for i, p in enumerate(lists.params) if p.kind == "tensors")
    assert found[:2] == [(at, f"{p.name}[0]"), (at, f"{p.name}[1]")]
    assert list(binding.tensors(NORM, [X, None, 1.0, 0.0], np.ndarray)) == [(0, "x", X)]


def test_a_bound_call_tells_its_arguments_and_its_contract() -> None:
    call = _anyop.bound_call("merge_attention_states", ["bf16", "bf16"], ["f32", "f32"])
    assert call.arguments == (("bf16", "bf16"), ("f32", "f32"))
    other = _anyop.bound_call("cast", "f32", "bf16", saturate=False)
    assert other.arguments == ("f32", "bf16", False)
    assert other.contract == Operator("anyop.cast").contract["hash"]
    assert _anyop.bound_call("rms_norm", "f32", eps=0.1).arguments == ("f32", None, 0.1, 0.0)


def test_a_bound_call_tells_its_scope() -> None:
    assert _anyop.bound_call("gelu", "f32").scope == ""
    with anyop.strict(), anyop.policy("gelu=cpu_portable"), anyop.threads(2):
        call, scope = _anyop.bound_call("gelu", "f32"), _anyop.scope_text()
    assert call.scope == scope != "" and call.text.endswith(scope)
    assert _anyop.find_bound_call(call.text).scope == scope
