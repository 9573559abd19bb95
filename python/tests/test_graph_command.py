# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyop
import pytest
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


def test_the_picture_shows_every_buffer(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("graph_probe:step", "f32[n, 64]", "float", "--at", "n=32", "--svg", "m.svg")
    assert result.exit_code == 0
    ElementTree.parse(tmp_path / "m.svg")
    text = (tmp_path / "m.svg").read_text()
    assert text.count('id="PolyCollection_') >= 2  # two values take turns
    assert "step at n = 32" in text


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["graph_probe"], "'graph_probe' is not MODULE:FUNCTION."),
        (["graph_probe:stop"], "graph_probe:stop: module 'graph_probe' has no attribute 'stop'."),
        (["graph_none:step"], "graph_none:step: No module named 'graph_none'."),
        (["graph_probe:step", "f32[n, 64]", "float", "--at", "n"], "'n' is not NAME=NUMBER."),
    ],
)
def test_wrong_arguments_are_named(run: Any, args: list[str], text: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert text in result.output


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
