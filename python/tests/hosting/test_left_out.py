# SPDX-License-Identifier: Apache-2.0
"""Calls by keyword that leave out what may be absent, though what must be there follows it."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest
from anyop.hosting.facts import Operator
from numpy_calls import LEAVES_OUT, left_out

EACH = pytest.mark.parametrize("op", LEAVES_OUT, ids=lambda op: op.short_name)


def results(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def assert_same(made: list[Any], wanted: list[Any]) -> None:
    assert [a is None for a in made] == [a is None for a in wanted]
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_there_are_such_operators() -> None:
    names = {op.name for op in LEAVES_OUT}
    assert {"anyop.causal_conv1d", "anyop.causal_conv1d_update"} <= names


@EACH
def test_leaving_it_out_is_none(op: Operator) -> None:
    with_none, without = left_out(op)
    assert set(without) < set(with_none)
    assert_same(results(op.function(**without)), results(op.function(**with_none)))
    for name, value in without.items():  # also what the call writes
        np.testing.assert_array_equal(value, with_none[name])


@EACH
def test_graphs_may_leave_it_out(op: Operator) -> None:
    with_none, without = left_out(op)
    wanted = results(op.function(**with_none))
    rest = {n: v for n, v in without.items() if not isinstance(v, np.ndarray)}
    arrays = {n: v for n, v in without.items() if n not in rest}

    def program(*given: Any) -> Any:
        made = op.function(**dict(zip(arrays, given, strict=True)), **rest)
        return tuple(r for r in results(made) if r is not None)

    graph = anyop.graph(program, *arrays.values())
    assert_same(results(graph(*arrays.values())), [r for r in wanted if r is not None])
