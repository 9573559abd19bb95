# SPDX-License-Identifier: Apache-2.0
"""The table of goals: what counts as met, and which sizes are measured."""

from __future__ import annotations

import importlib
import io
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from anyop.bench import Case
from anyop.bench.measure import Row, Timing
from checkout import ROOT
from rich.console import Console

LEVELS = [("L1", 16384), ("L2", 524288), ("L3", 8388608), ("DRAM", 1 << 27)]
CEILINGS = {
    "bandwidths": [
        {"level": name, "bytes": size, "threads": 1, "read_gbs": 20.0, "copy_gbs": 10.0}
        for name, size in LEVELS
    ],
    "rates": [{"name": "f32 fma", "threads": 1, "gops": 100.0}],
}


@pytest.fixture
def goals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("threadpoolctl")
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), str(ROOT), *sys.path])
    return importlib.import_module("goals")


def case(goal: str, elements: int = 1000) -> Case:
    arrays = {"x": np.ones(elements, np.float32)}
    return Case("[x]", arrays, ours=lambda a: None, moved=4 * elements, goal=goal)  # type: ignore


def row(us: float, bound_us: float, **others: float) -> Row:
    timings = {name: Timing(t, t) for name, t in {"anyop": us, **others}.items()}
    return Row("op", "[x]", "warm", 1, "cpu", bound_us, "L1", "", timings)


def test_most_and_least_are_met_on_their_own_sides(goals: ModuleType) -> None:
    for reached, is_most, met in (
        (1, False, False),
        (3, False, True),
        (1, True, True),
        (3, True, False),
    ):
        goal = goals.Goal("part", "what", reached, 2, "", is_most)
        assert goal.is_met is met and (goal.share >= 1) is met


def test_a_case_is_compared_with_what_its_goal_names(goals: ModuleType) -> None:
    small = list(
        goals.case_goals(case("small operator"), row(1, 0.5, vllm=3, torch=3), CEILINGS, 1 << 23)
    )
    assert [(g.unit, g.reached, g.is_met) for g in small] == [
        ("x vllm", 3, False),
        ("x torch", 3, True),
    ]
    (movement,) = goals.case_goals(case("movement"), row(1, 0.2), CEILINGS, 1 << 23)
    assert movement.reached == pytest.approx(0.4)  # 4000 bytes at the 10 GB/s of a copy
    assert movement.unit == "of copy bandwidth (L1)"
    attention = case("decode attention")
    attention.flops = 10**9  # its goal is about reading alone
    (read, _) = goals.case_goals(attention, row(1, 0.2, vllm=3), CEILINGS, 1 << 23)
    assert read.reached == pytest.approx(0.2)


def test_a_void_or_missing_opponent_gives_no_number(goals: ModuleType) -> None:
    void = row(1, 0.5, vllm=9)
    void.timings["vllm"].matches = False
    assert list(goals.case_goals(case("small operator"), void, CEILINGS, 1 << 23)) == []


def test_from_memory_the_aim_of_many_rows_is_lower(goals: ModuleType) -> None:
    for elements, aim in ((1000, 0.85), (1 << 22, 0.6)):
        found = goals.case_goals(case("many rows", elements), row(1, 0.7), CEILINGS, 1 << 23)
        assert [g.aim for g in found] == [aim]


def test_sizes_are_those_that_the_goal_is_about(goals: ModuleType) -> None:
    level = dict(LEVELS)
    for goal, elements, wanted in (
        ("", 1000, False),
        ("small operator", 1000, True),
        ("small operator", 1 << 20, False),
        ("movement", 1000, False),
        ("movement", 1 << 20, True),
        ("one row", 1 << 20, False),
        ("one row of blocks", 1 << 23, True),
        ("many rows", 1000, True),
    ):
        assert goals.is_wanted(case(goal, elements), level) is wanted, (goal, elements)


def test_every_goal_of_a_case_has_an_aim_and_wrong_ones_are_refused(goals: ModuleType) -> None:
    from anyop.bench._case import GOALS

    assert set(GOALS) == set(goals.CASE_GOALS)
    with pytest.raises(ValueError, match=r"\[x\]: no goal is 'fast', but movement, "):
        case("fast")


def test_the_short_table_shows_the_one_furthest_off(goals: ModuleType) -> None:
    def shown(short: bool) -> str:
        made: list[Any] = [goals.Goal("part", f"row {n}", n, 4) for n in (3, 5, 2)]
        text = io.StringIO()
        goals.show(made, ["no llama"], Console(file=text, width=120), short)
        return text.getvalue()

    assert "furthest: row 2" in shown(True) and "1 of 3" in shown(True)
    assert "row 5" in shown(False) and "row 5" not in shown(True)
    assert "no llama" in shown(True)


def test_a_ceiling_is_the_best_that_was_measured(goals: ModuleType) -> None:
    first = {**CEILINGS, "rates": [{"name": "f32 fma", "threads": 1, "gops": 50.0}]}
    both = goals.best_of(first, CEILINGS)
    assert both["rates"] == CEILINGS["rates"] and both["bandwidths"] == CEILINGS["bandwidths"]


def test_goals_of_hosts_are_read_off_the_rows_of_the_hosts_command(goals: ModuleType) -> None:
    from anyop.bench.commands.hosts import HOSTS, Decode, Row

    assert set(goals.HOST_GOALS) <= {host.name for host in HOSTS}
    void = Decode("f32", 1, 50.0, "jax", 10.0, 5.0, is_void=True)
    row = Row("JAX jit", 4400, "jax.jit(jax.numpy.add)(a, b)", 4000, 1.1, 20.0)
    row.decode = [Decode("bf16", 1, 100.0, "jax", 52.6, 1.9), void]
    call, decode = goals.host_goals(row)
    assert (call.reached, call.is_met, call.unit) == (1.1, True, f"of {row.beside}")
    assert (decode.reached, decode.aim, decode.is_met) == (1.9, 2, False)
    (chain,) = goals.host_goals(Row("JAX jit, each of a chain of 100", 140.0))
    assert (chain.reached, chain.aim, chain.is_met, chain.unit) == (140.0, 130, False, "ns")
