# SPDX-License-Identifier: Apache-2.0
"""`anyop bench calls --host jax`, and JAX's rows of `anyop bench hosts`."""

from __future__ import annotations

import os

import anyop
import pytest
from anyop.bench import ModelBench, models
from anyop.bench.commands.calls_jax import CHAIN, measure
from anyop.bench.commands.hosts import HOSTS
from anyop.bench.commands.interleave import EACH


def test_every_row_is_measured_beside_the_frameworks_own() -> None:
    rows = {row.what: row for row in measure(calls=5, rounds=20)}
    assert all(row.ns > 0 for row in rows.values())
    ours = [row for row in rows.values() if "anyop" in row.what]
    assert len(ours) == 3 and "anyop.add(a, b), JAX arrays" in rows
    for row in ours:
        assert row.ratio is not None and "anyop" not in row.beside
        assert abs(row.ratio - row.ns / rows[row.beside].ns) <= 0.001
    for host in HOSTS:
        if host.module == "jax":
            assert {host.call, host.beside} <= {"", *rows}
    one, whole = rows["jax.jit(anyop.add)(a, b)"], rows[f"jax.jit of {CHAIN} anyop.add"]
    assert abs(rows[EACH].ns - (whole.ns - one.ns) / (CHAIN - 1)) <= 0.1


def test_other_numbers_of_threads_than_jax_has_are_refused() -> None:
    n = len(os.sched_getaffinity(0)) + 1
    bench = ModelBench("", lambda: [], {}, {}, {}, (), lambda asked: iter(()))
    with pytest.raises(anyop.InvalidArgument) as caught:
        models.measure(bench, [], models.Plan([n]), {})
    assert str(caught.value) == (
        f"bench: {n} threads are asked for, but JAX has one for each core that the process may "
        f"use, which are {n - 1}. Try taskset -c 0-{n - 1} anyop bench model --threads {n}, or "
        "anyop bench hosts."
    )
