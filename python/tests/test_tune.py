# SPDX-License-Identifier: Apache-2.0
"""Kernels of which the machine decides the better one: what `anyop tune` records, and who reads it.

`probe.either` has a slow and a fast kernel; its result is 100 by the first, 1 by the second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import pytest
from anyop.cli import app
from click.testing import CliRunner, Result

CALL = """
import sys, anyop, numpy as np
anyop.load(sys.argv[1])
x = np.ones(64, np.float32)
results = [float(anyop.ops.probe.either(x)[0]), float(anyop.ops.probe.either(x)[0])]
with anyop.policy("probe.either=" + sys.argv[2]) if len(sys.argv) > 2 else anyop.strict():
    results.append(float(anyop.ops.probe.either(x)[0]))
print(results)
print([(c.kernel, c.calls) for c in anyop.counters()])
print(*[f"{k.kernel}: {k.reason or 'taken'}" for k in anyop.explain("probe.either", x).kernels],
      sep="\\n")
"""
SLOW, FAST = "[100.0, 100.0, 100.0]", "[1.0, 1.0, 1.0]"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that processes use, which is not there yet."""
    monkeypatch.delenv("ANYOP_TUNED", raising=False)
    monkeypatch.setenv("ANYOP_CACHE", str(tmp_path / "cache"))
    return Path(anyop.tuned_file())


def call(library: Path, *pinned: str, tuned: str | None = None) -> tuple[list[str], str]:
    """The lines that a new process prints of its calls, and what it warns of."""
    env = dict(os.environ) if tuned is None else {**os.environ, "ANYOP_TUNED": tuned}
    command = [sys.executable, "-c", CALL, str(library), *pinned]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["tune", *args])


def test_without_a_file_every_process_takes_the_first(probe_file: Path, file: Path) -> None:
    first, second = call(probe_file), call(probe_file)
    assert first == second
    assert first[0] == [
        SLOW,
        "[('cpu_slow', 3)]",
        "cpu_slow: taken",
        "cpu_fast: cpu_slow comes first; `anyop tune` can measure both",
    ]
    assert first[1] == ""
    assert not file.exists()


def test_later_processes_take_what_was_faster(probe: Any, probe_file: Path, file: Path) -> None:
    choices = anyop.tune(probe.either)
    assert [(c.op, c.call, c.taken, c.stale) for c in choices] == [
        ("probe.either", f"T={dtype}", "cpu_fast", "") for dtype in ("f64", "f32")
    ]
    lines, warned = call(probe_file)
    assert lines[:2] == [FAST, "[('cpu_fast', 3)]"]
    assert lines[2].startswith("cpu_slow: cpu_fast was faster when `anyop tune` measured both ("), (
        lines
    )
    assert lines[3] == "cpu_fast: taken"
    assert warned == ""


def test_a_policy_is_above_what_is_tuned(probe: Any, probe_file: Path, file: Path) -> None:
    anyop.tune(probe.either)
    assert call(probe_file, "cpu_slow")[0][0] == "[1.0, 1.0, 100.0]"


def test_none_is_no_file(probe: Any, probe_file: Path, file: Path) -> None:
    anyop.tune(probe.either)
    lines, warned = call(probe_file, tuned="none")
    assert lines[0] == SLOW
    assert lines[3] == "cpu_fast: cpu_slow comes first; no file of `anyop tune` is read"
    assert warned == ""


def test_a_file_can_be_carried(probe: Any, probe_file: Path, tmp_path: Path, file: Path) -> None:
    mine = tmp_path / "mine.txt"
    anyop.tune(probe.either, file=mine)
    assert not file.exists()
    assert call(probe_file)[0][0] == SLOW
    assert call(probe_file, tuned=str(mine)) == (call(probe_file, tuned=str(mine))[0], "")
    assert call(probe_file, tuned=str(mine))[0][0] == FAST


def test_a_file_that_cannot_be_used_is_one_warning(
    probe: Any, probe_file: Path, file: Path
) -> None:
    anyop.tune(probe.either)
    whole = file.read_text()
    file.write_text(whole.replace("cpu_fast", "cpu_fost"))
    lines, warned = call(probe_file)
    assert lines[0] == SLOW
    assert warned == (
        f"anyop: warning: tuned choices of {file} are not used: its digest does not fit, so that "
        "it is damaged. Try `anyop tune`.\n"
    )
    rows = [(*c[:1], "0.9", *c[2:]) for c in anyop.tune(probe.either, file=file)]
    anyop._anyop.write_tuned(file, rows)
    lines, warned = call(probe_file)
    assert lines[0] == SLOW
    assert warned == (
        f"anyop: warning: a tuned choice for probe.either in {file} is not used: it is of version "
        "'0.9' of probe, and '0.0.0' is loaded. Try `anyop tune`.\n"
    )


def test_choices_of_other_operators_stay(probe: Any, file: Path) -> None:
    other = ("gone.op", "1", "0", "T=f32", "a", "b", 2.0, 1.0)
    stale = ("anyop.add", "1", "0", "T=f32", "a", "b", 2.0, 1.0)
    anyop._anyop.write_tuned(file, [other, stale])
    anyop.tune(probe.either)
    rows, problem = anyop._anyop.read_tuned(file)
    assert not problem
    assert [r[0] for r in rows] == ["gone.op", "probe.either", "probe.either"]
    anyop.tune("probe.either")
    assert len(anyop._anyop.read_tuned(file)[0]) == 3
    before = file.read_text()
    assert anyop.tune(anyop.add) == []
    assert file.read_text() == before


def test_processes_that_tune_at_once_leave_a_whole_file(probe_file: Path, file: Path) -> None:
    script = """
import sys, anyop
either = anyop.load(sys.argv[1]).either
for _ in range(20):
    anyop.tune(either)
"""
    both = [subprocess.Popen([sys.executable, "-c", script, str(probe_file)]) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert anyop._anyop.read_tuned(file)[1] == ""
    assert call(probe_file)[0][0] == FAST
    assert list(file.parent.iterdir()) == [file]


def test_tune_takes_operators_by_name_and_names_what_is_wrong(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(anyop.NotAvailable, match="Did you mean 'linear'"):
        anyop.tune("linaer")
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("mine")
    with pytest.raises(anyop.InvalidArgument, match=f"tune: {thesis} is there, but was not"):
        anyop._anyop.write_tuned(thesis, [])
    monkeypatch.setenv("ANYOP_TUNED", "none")
    with pytest.raises(anyop.InvalidArgument) as raised:
        anyop.tune()
    assert str(raised.value) == (
        "tune: no file is given, but ANYOP_TUNED is none or there is no cache folder. "
        "Try another ANYOP_TUNED, or a file."
    )


def test_choices_are_checked(file: Path) -> None:
    for wrong in (3, ("a",), ("a", "b", "c", "d", "e", "f", "g", 1.0)):
        with pytest.raises(TypeError):
            anyop._anyop.write_tuned(file, [wrong])  # type: ignore[list-item]
    assert not file.exists()


def test_the_command_measures_shows_and_clears(probe: Any, file: Path) -> None:
    result = run("--show")
    assert "there is no such file. Where two kernels could be measured" in result.output
    result = run("probe.either")
    assert result.exit_code == 0
    assert f"Written to {file}. Processes that start now take these kernels." in result.output
    assert "probe.either" in result.output
    assert "cpu_fast" in result.output
    shown = json.loads(run("--show", "--json").output)
    assert shown["file"] == str(file)
    assert [(c["op"], c["taken"], c["stale"]) for c in shown["choices"]] == [
        ("probe.either", "cpu_fast", "")
    ] * 2
    assert "2 choices of" in run("--show").output
    assert "holds no choice of these operators" in run("--show", "add").output
    again = json.loads(run("--json", "probe.either").output)
    assert [c["call"] for c in again["choices"]] == ["T=f64", "T=f32"]
    assert run("--clear", "--show").exit_code == 2
    assert "removed" in run("--clear").output
    assert not file.exists()
    assert "there is no such file" in run("--clear").output
    assert "No two kernels want to be measured" in run("add").output


def test_the_command_takes_a_file(probe: Any, file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    assert run("probe.either", "--file", str(mine)).exit_code == 0
    assert not file.exists()
    assert "2 choices of" in run("--show", "--file", str(mine)).output
    mine.write_text("mine")
    result = run("--clear", "--file", str(mine))
    assert isinstance(result.exception, anyop.InvalidArgument)
    assert mine.exists()


def test_doctor_and_benches_tell_the_file_in_use(probe: Any, file: Path) -> None:
    from anyop.bench import runs

    def doctor(*args: str) -> str:
        return CliRunner().invoke(app, ["doctor", "--quick", *args], terminal_width=300).output

    text = runs.machine()["tuned"]
    assert text == (
        f"none, so that the first of two kernels is taken ({file}: there is no such file)"
    )
    choices = anyop.tune(probe.either)
    anyop._anyop.write_tuned(file, [*choices, (*choices[0][:2], "0", *choices[0][3:5], "c", 1, 1)])
    assert json.loads(doctor("--json"))["tuned"] == {
        "file": str(file), "choices": 3, "stale": 1, "problem": "",
    }  # fmt: skip
    assert f"3 choices of {file}, of which 1 are stale" in doctor().replace("\n", "")
    assert runs.machine()["tuned"] == f"3 choices of {file}, of which 1 are stale"


def test_operators_of_ours_take_the_dot_kernels_first() -> None:
    names = [s["name"] for s in anyop.specs() if anyop._anyop.wants_tuning(s["name"])]
    for name in names:
        if name.startswith("anyop."):
            pairs = {
                (first, second) for *_, first, second, _, _ in anyop._anyop.measure_pairs(name)
            }
            assert pairs
            assert all("dot" in first and "dot" not in second for first, second in pairs), name


def test_this_process_keeps_what_it_took(probe_file: Path, file: Path) -> None:
    script = """
import sys, anyop, numpy as np
either = anyop.load(sys.argv[1]).either
first = either(np.ones(64, np.float32))[0]
anyop.tune(either)
print(first, either(np.ones(65, np.float32))[0])
print(anyop.explain(either, np.ones(66, np.float32)).kernel)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(probe_file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "100.0 100.0\ncpu_slow\n"
