# SPDX-License-Identifier: Apache-2.0
"""A sample of the operators that has every feature of a contract, and every two that some operator
has together: for what costs seconds an operator, as compiling a graph of it does.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy_calls
import pytest
from anyop.hosting.facts import Operator


def features(op: Operator) -> frozenset[str]:
    """What leads a host into code of its own."""
    found = {f"{min(len(op.results), 2)} results", f"{min(len(op.contract['forms']), 2)} forms"}
    if any(result.is_optional for result in op.results):
        found.add("a result that may be declined")
    if op.wiring:
        found.add("a gradient")
    for p in op.params:
        optional, mut = "?" * p.is_optional, "mut " * p.is_mut
        found.add(f"{mut}{p.kind}{optional}{' =' * p.has_default}")
    return frozenset(found)


def sample_of(operators: Iterable[Operator]) -> set[str]:
    """The short names of few operators that have all pairs of features; the same in each run."""
    pairs = {
        op.short_name: set(itertools.combinations_with_replacement(sorted(features(op)), 2))
        for op in operators
    }
    missing: set[tuple[str, ...]] = set().union(*pairs.values())
    chosen: set[str] = set()
    while missing:
        best = max(sorted(pairs), key=lambda name: len(pairs[name] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return chosen


@functools.cache
def sample() -> set[str]:
    """Of the built-in operators."""
    return sample_of(numpy_calls.OPERATORS)


def sampled() -> list[Any]:
    """The built-in operators as parameters of a test: those outside the sample are exhaustive."""
    return [
        pytest.param(op, marks=() if op.short_name in sample() else pytest.mark.exhaustive)
        for op in numpy_calls.OPERATORS
    ]
