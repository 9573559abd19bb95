# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyop
import numpy as np
import pytest
from anyop import _anyop
from anyop.cli import app
from click.testing import CliRunner, Result

MODULE = """
import anyop
import numpy as np

WEIGHT = np.ones((64, 64), np.float32)

def step(x, eps):
    y = anyop.rms_norm(x, None, eps)
    for _ in range(3):
        y = anyop.linear(y, WEIGHT)
    return y

def branch(x):
    return x if x else None

def take(ids):
    return anyop.embedding(ids, WEIGHT[:4])

def twice(x):
    return anyop.add(anyop.softmax(x), anyop.softmax(x))

GRAPH = anyop.graph(lambda x: anyop.softmax(x), "f32[4]")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "graph_probe.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(app, ["graph", *args])

    return invoke


def test_the_command_prints_the_graph_of_a_function(run: Any) -> None:
    result = run("graph_probe:step", "f32[n, 64]", "float")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[:2] == ["input x: f32[n, 64]", "input eps: float"]
    assert sum("anyop.linear" in line and "# graph_probe.py:10" in line for line in lines) == 3
    assert "memory" not in result.output


def test_sizes_give_the_memory_of_a_replay(run: Any) -> None:
    result = run("graph_probe:step", "f32[n, 64]", "float", "--at", "n=1024")
    assert "memory of a replay: " in result.output
    assert "state 16.0 KiB" in result.output
    fixed = run("graph_probe:step", "f32[8, 64]", "float")
    assert "memory of a replay: " in fixed.output


def test_pictures_are_written(run: Any, tmp_path: Path) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float", "--at", "n=32")
    result = run(*step, "--svg", "m.svg", "--html", "m.html")
    assert result.exit_code == 0
    ElementTree.parse(tmp_path / "m.svg")
    text = (tmp_path / "m.svg").read_text()
    assert "n = 32" in text
    assert "graph_probe.py:10" in text
    assert "GFLOP/s" not in text
    assert (tmp_path / "m.html").read_text().startswith("<!DOCTYPE html>")
    assert "memory of a replay: " in result.output
    assert "input x" not in result.output  # the text is for a call without pictures


def test_a_picture_without_sizes_says_what_it_lacks(run: Any) -> None:
    result = run("graph_probe:step", "f32[n, 64]", "float", "--svg", "m.svg")
    assert "The picture has no memory, which needs sizes. Try --at n=512." in result.output
    assert run("graph_probe:GRAPH", "--svg", "m.svg").output.startswith("memory of a replay")


def test_a_profile_is_a_table_and_part_of_the_picture(run: Any, tmp_path: Path) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float", "--at", "n=32", "--at", "eps=0.5")
    result = run(*step, "--profile", "--repeats", "2", "--svg", "m.svg")
    assert result.exit_code == 0, result.output
    assert "by operator" in result.output
    assert "in 4 nodes; a call " in result.output
    assert "anyop.linear " in result.output
    assert "GFLOP/s" in (tmp_path / "m.svg").read_text()
    missing = run("graph_probe:step", "f32[n, 64]", "float", "--profile")
    assert isinstance(missing.exception, anyop.WrongType)
    assert str(missing.exception) == "step: n is missing. Try n=1."


def test_numbers_of_a_profile_are_those_given(run: Any) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float", "--at", "n=2", "--profile")
    assert run(*step, "--at", "eps=0.5").exit_code == 0
    refused = run(*step, "--at", "eps=-0.5")
    assert "eps >= 0 must hold, but eps is -0.5" in str(refused.exception)
    assert _anyop.listen_to_passes(None) is None  # nobody listens any more


def test_a_profile_takes_arrays_from_files(run: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([7]))
    take = ("graph_probe:take", "i64[n]", "--at", "n=1", "--profile")
    wrong = run(*take, "--input", "ids=ids.npy")
    assert isinstance(wrong.exception, anyop.InvalidArgument)
    assert "ids[0] is 7" in str(wrong.exception)
    assert run(*take).exit_code == 0  # zeros
    named = run(*take, "--input", "idx=ids.npy")
    assert "take has no input 'idx'. Did you mean 'ids'?" in " ".join(named.output.split())


def test_passes_tell_what_they_change(run: Any) -> None:
    result = run("graph_probe:twice", "f32[n]", "--passes")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("remove duplicates:"))
    assert lines[at + 1].startswith("@@ -1,")
    assert sum(line.startswith("-v") for line in lines[at:]) == 2
    assert "fold what is known: nothing changed" in lines


def test_json_holds_everything(run: Any) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float", "--at", "n=32", "--json")
    told = json.loads(run(*step, "--passes", "--profile", "--repeats", "2").output)
    assert told["name"] == "step"
    assert told["sizes"] == {"n": 32}
    assert told["memory"]["spans"]
    assert {p["pass"] for p in told["passes"]} >= {"remove dead", "remove duplicates"}
    assert all(node["ns_min"] > 0 for node in told["nodes"])
    assert told["call_ns"] > 0
    plain = json.loads(run("graph_probe:step", "f32[n, 64]", "float", "--json").output)
    assert "memory" not in plain
    assert "passes" not in plain


def test_a_profile_is_drawn_again_without_measuring(run: Any, tmp_path: Path) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float", "--at", "n=32")
    told = json.loads(run(*step, "--profile", "--repeats", "2", "--json").output)
    (tmp_path / "times.json").write_text(json.dumps(told))
    drawn = run(*step, "--times", "times.json", "--chart", "chart.svg", "--arena", "arena.svg",
                "--narrow", "narrow.svg")  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    chart = (tmp_path / "chart.svg").read_text()
    assert all(f"{node['share']:.1%}" in chart for node in told["nodes"])
    assert told["machine"]["cpu"] in " ".join(re.findall(r">([^<]+)</text>", chart))
    assert json.loads(run(*step, "--times", "times.json", "--json").output) == told

    other = run("graph_probe:step", "f32[n, 64]", "float", "--at", "n=33", "--times", "times.json")
    assert "times.json is a profile of another graph, or at other sizes: " in other.output
    assert "at {'n': 32}, but step has " in other.output
    (tmp_path / "no.json").write_text('{"nodes": []}')
    assert "no.json holds no profile of a graph (KeyError: 'call_ns')." in " ".join(
        run(*step, "--times", "no.json").output.split()
    )


def test_a_picture_needs_what_it_shows(run: Any) -> None:
    step = ("graph_probe:step", "f32[n, 64]", "float")
    assert "--arena draws memory, which needs sizes. Try --at n=512." in " ".join(
        run(*step, "--arena", "a.svg").output.split()
    )
    assert "--chart draws times. Try --profile, or --times FILE." in " ".join(
        run(*step, "--at", "n=2", "--chart", "c.svg").output.split()
    )


def test_the_log_tells_of_passes(tmp_path: Path) -> None:
    (tmp_path / "graph_probe.py").write_text(MODULE)
    code = "import anyop, graph_probe; anyop.graph(graph_probe.twice, 'f32[n]')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "ANYOP_LOG": "graph"},
    )  # fmt: skip
    assert "graph:\ninput x: f32[n]\n" in done.stderr
    assert "graph, remove duplicates:\n@@ -1," in done.stderr


def test_saved_graphs_are_shown(run: Any, tmp_path: Path) -> None:
    ones = np.ones((64, 64), np.float32)
    graphs = {
        "wide": anyop.graph(lambda x: anyop.linear(x, ones), "f32[n, 64]"),
        "soft": anyop.graph(lambda x: anyop.softmax(x), "f32[n]"),
    }
    anyop.save_graphs(tmp_path / "two.anyop", graphs)
    assert "anyop.softmax(x)" in run("two.anyop:soft").output
    profiled = run("two.anyop:wide", "--at", "n=8", "--profile", "--html", "wide.html")
    assert profiled.exit_code == 0, profiled.output
    assert "test_graph_command.py:" in (tmp_path / "wide.html").read_text()
    graphs["soft"].save(tmp_path / "one.anyop")
    assert "anyop.softmax(x)" in run("one.anyop").output
    missing = run("two.anyop:sof")
    assert isinstance(missing.exception, anyop.NotAvailable)


def test_a_graph_of_a_module_is_shown(run: Any) -> None:
    result = run("graph_probe:GRAPH")
    assert result.output.startswith("input x: f32[4]\n")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            ["graph_probe"],
            "'graph_probe' is not MODULE:FUNCTION, and no folder of saved graphs. Try "
            "my_model:step for the function step of my_model.py in this folder.",
        ),
        (
            ["graph_probe:stop"],
            "graph_probe:stop: graph_probe has no 'stop'. Did you mean 'step'?",
        ),
        (
            ["graph_probe:nothing_alike"],
            "graph_probe has no 'nothing_alike'. Try the name of a function or graph of it.",
        ),
        (
            ["graph_none:step"],
            "graph_none:step: No module named 'graph_none'. Try the name of a module of this",
        ),
        (["graph_probe:step", "f32[n, 64]", "float", "--at", "n"], "'n' is not NAME=NUMBER."),
    ],
)
def test_wrong_arguments_are_named(run: Any, args: list[str], text: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())


def test_what_the_function_may_not_do_is_told(run: Any) -> None:
    result = run("graph_probe:branch", "f32[n]")
    assert isinstance(result.exception, anyop.InvalidArgument)
    assert "graph_probe.py:14 asks whether x, f32[n] is true" in str(result.exception)


def test_the_document_holds_the_code_of_the_example() -> None:
    root = Path(__file__).resolve().parents[2]
    example = (root / "examples/graph.py").read_text()
    code = example.split("# ---8<---\n")[1].split("# --->8---")[0]
    assert f"```python\n{code}```" in (root / "docs/graphs.md").read_text()
    exec(compile(example, "graph.py", "exec"), {})
