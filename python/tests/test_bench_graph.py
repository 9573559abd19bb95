# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from pathlib import Path

import anyop
import numpy as np
import pytest
from anyop.bench import models
from anyop.bench.commands import graph as bench_graph
from anyop.cli import app
from checkout import ROOT
from click.testing import CliRunner

decoders = models.module_of(ROOT / "examples" / "smollm2" / "decoder_graphs.py")
SMALL = decoders.Shape(2, 128, 2, 1, 64, 64, 32)


def test_a_measured_decoder_computes_what_its_calls_do() -> None:
    step, compiled = decoders.of_arrays(SMALL)
    given = decoders.decode_inputs()
    np.testing.assert_array_equal(compiled(*given), step(*given))


def test_a_decoder_of_inputs_has_a_plan_and_no_state() -> None:
    made = decoders.of_inputs(SMALL)
    assert made.stats().state_bytes == 0
    assert made.stats().nodes == 4 + 10 * SMALL.layers
    memory = made.memory(t=64)
    assert memory.bound_bytes <= memory.peak_bytes < memory.unshared_bytes
    assert memory.peak_bytes <= 1.1 * memory.bound_bytes


def test_memory_rows_tell_the_ratio_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "SMOLLM2", SMALL)
    monkeypatch.setattr(decoders, "LLAMA_8B", SMALL)
    rows = list(bench_graph.memory(decoders))
    assert [row.what for row in rows][:2] == [
        "SmolLM2, 2 layers, prefill 512",
        "SmolLM2, 2 layers, decode",
    ]
    assert all(1 <= row.value < 1.2 for row in rows)


def program(tmp_path: Path, output: str, status: int = 0) -> Path:
    path = tmp_path / "bench"
    path.write_text(f"#!{sys.executable}\nprint({output!r})\nraise SystemExit({status})\n")
    path.chmod(0o755)
    return path


def test_rows_of_the_program_are_the_least_of_its_repetitions(tmp_path: Path) -> None:
    runs = [
        {"run_name": n, "run_type": t, "real_time": x, "time_unit": "us", **more}
        for n, t, x, more in (
            ("Replay1000Nodes", "iteration", 3.0, {"ns_per_node": 3.0}),
            ("Replay1000Nodes", "iteration", 2.0, {"ns_per_node": 2.0}),
            ("Replay1000Nodes", "aggregate", 1.0, {"ns_per_node": 1.0}),
            ("Specialise1000Nodes", "iteration", 700.0, {}),
            ("Plan/cut/100", "iteration", 9.0, {"worst_of_bound": 1.25}),
        )
    ]
    skipped: list[str] = []
    rows = list(bench_graph.cpp(program(tmp_path, json.dumps({"benchmarks": runs})), True, skipped))
    assert [(r.what, r.value, r.unit) for r in rows] == [
        ("Replay1000Nodes, per node", 2.0, "ns"),
        ("Specialise1000Nodes", 700.0, "us"),
        ("Plan/cut/100, worst of bound", 1.25, "x"),
        ("Plan/cut/100", 9.0, "us"),
    ]
    assert not skipped


def test_rows_that_are_left_out_say_why(tmp_path: Path) -> None:
    skipped: list[str] = []
    assert not list(bench_graph.cpp(tmp_path / "none", True, skipped))
    assert not list(bench_graph.cpp(program(tmp_path, "", 3), True, skipped))
    assert "none does not exist. Try --programs" in skipped[0]
    assert "bench failed" in skipped[1]


@pytest.mark.exhaustive
def test_the_command_prints_and_saves_its_rows(tmp_path: Path) -> None:
    saved = tmp_path / "run.json"
    args = ["bench", "graph", "--quick", "--json", "--save", str(saved), "--programs", "none"]
    told = json.loads(CliRunner().invoke(app, args).stdout)
    assert told == json.loads(saved.read_text())
    assert told["machine"]["threads"] == anyop.get_num_threads()
    parts = {row["part"] for row in told["rows"]}
    assert {"a call from Python", "replay", "memory plan / lower bound"} <= parts
    assert all(row["value"] > 0 for row in told["rows"] if "without its kernels" not in row["what"])
