# SPDX-License-Identifier: Apache-2.0
"""Calls by keyword that leave out what may be absent, though what must be there follows it."""

from __future__ import annotations

import anyop
import numpy as np
import pytest
from anyop.hosting.facts import Operator

from numpy_calls import LEAVES_OUT, left_out


def test_there_are_such_operators() -> None:
    assert [op.name for op in LEAVES_OUT][:2] == ["anyop.causal_conv1d", "anyop.causal_conv1d_update"]


@pytest.mark.parametrize("op", LEAVES_OUT, ids=lambda op: op.name)
def test_leaving_it_out_is_none(op: Operator) -> None:
    with_none, without = left_out(op)
    np.testing.assert_array_equal(op.function(**with_none), op.function(**without))
    for a, b in zip(
        [v for v in with_none.values() if v is not None], without.values(), strict=True
    ):
        np.testing.assert_array_equal(a, b)  # also what the call writes


@pytest.mark.parametrize("op", LEAVES_OUT, ids=lambda op: op.name)
def test_graphs_may_leave_it_out(op: Operator) -> None:
    with_none, without = left_out(op)
    want = op.function(**with_none)
    names = [n for n, v in without.items() if isinstance(v, np.ndarray)]
    rest = {n: v for n, v in without.items() if n not in names}
    graph = anyop.graph(
        lambda *args: op.function(**dict(zip(names, args, strict=True)), **rest),
        *(without[n] for n in names),
    )
    np.testing.assert_array_equal(graph(*(without[n] for n in names)), want)
