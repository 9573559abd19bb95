# SPDX-License-Identifier: Apache-2.0
"""`anyop bench hosts`, with a model of a few lines in place of the checkout's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anyop.bench.commands import command
from anyop.bench.commands.hosts import HOSTS, MODULES
from click.testing import CliRunner

# Every way takes the same time; "numpy" takes three times as long, and is wrong for bf16.
MODEL = """
import os
from anyop.bench import ModelBench, Way

class Elsewhere:
    def __init__(self, seconds, step=1):
        self.seconds, self.step = seconds, step

    def decode(self, prompt, ids):
        cores = len(os.sched_getaffinity(0))
        return [cores * self.seconds] * len(ids), [(i + self.step) % 64 for i in ids]

class Counts(Elsewhere):
    def reset(self):
        pass

    def forward(self, ids):
        logits = [0.0] * 64
        logits[(int(ids[-1]) + self.step) % 64] = 1.0
        return [logits]

def ways(asked):
    for weights in asked.weights:
        for how in asked.ours:
            model = Elsewhere(0.5) if how == "program" else Counts(0.5)
            yield Way("anyop", how, weights, model)
        for name in asked.opponents:
            yield Way(name, "", weights, Counts(1.5, 2 if weights == "bf16" else 1))

NAMES = {"eager": "", "captured": "", "program": ""}
bench = ModelBench("Counter", lambda: [3], {"f32": "", "bf16": ""}, NAMES, {"numpy": ""}, (), ways)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "examples" / "smollm2").mkdir(parents=True)
    (folder / "examples" / "smollm2" / "bench.py").write_text(MODEL)
    short = ("--host", "numpy", "--threads", "1", "--steps", "8", "--rounds", "1", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "anyop", "bench", "hosts", *short],
        capture_output=True, text=True, cwd=folder, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calls_are_those_of_the_calls_command(told: Any) -> None:
    assert [row["host"] for row in told["rows"]] == ["C++", "NumPy", "NumPy, graph"]
    numpy = told["rows"][1]
    assert numpy["beside"] == "numpy.add(a, b)"
    assert numpy["call_ratio"] == pytest.approx(numpy["call_ns"] / numpy["beside_ns"], abs=0.001)
    assert told["rows"][0]["call_ns"] > 0 and told["rows"][0]["call_ratio"] is None
    assert all(0 < row["import_ms"] < 5000 for row in told["rows"])


def test_the_model_is_timed_on_as_many_cores_as_threads(told: Any) -> None:
    program, eager, graph = (row["decode"] for row in told["rows"])
    assert [(d["weights"], d["threads"], d["ours"]) for d in program] == [
        ("bf16", 1, 2.0), ("f32", 1, 2.0),
    ]  # fmt: skip
    assert [d["against"] for d in program] == ["", ""]
    for row in (eager, graph):
        assert [d["against"] for d in row] == ["numpy", "numpy"]
        assert [d["is_void"] for d in row] == [True, False]  # of bf16 they say other tokens
        assert row[1]["theirs"] == pytest.approx(1 / 1.5, abs=0.1) and row[1]["ratio"] == 3.0


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(command, ["hosts", "--host", "jax", "--threads", "1"])
    assert "jax is not installed: no rows of it." in done.output
    assert "No rows of the model. Try it in a checkout." in done.output


def test_wrong_numbers_of_threads_are_refused() -> None:
    done = CliRunner().invoke(command, ["hosts", "--threads", "1,4096"])
    assert done.exit_code == 2 and "must be numbers from 1 to" in done.output


def test_every_framework_of_the_calls_has_rows() -> None:
    from anyop.bench.commands.calls import HOSTS as OF_CALLS

    assert MODULES == OF_CALLS
    assert len({host.name for host in HOSTS}) == len(HOSTS)
