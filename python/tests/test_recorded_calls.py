# SPDX-License-Identifier: Apache-2.0
"""`anyop run`, `anyop replay` and `anyop profile`: calls of a program, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import numpy as np, anyop
x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
for _ in range(5):
    anyop.rms_norm(x, w, eps=1e-5)
wide = np.ones((4, 128), np.float32)
anyop.rms_norm(wide[:, :64], w, out=wide[:, :64])
graph = anyop.graph(lambda a: anyop.softmax(anyop.add(a, a)), "f32[n, 8]")
print(graph(np.ones((3, 8), np.float32)).sum())
y = anyop.add(x.T, x.T)
"""
POKE = """
import ctypes, sys, anyop, numpy as np

@anyop.define("poke(x: f32[n]) -> (y: f32[n])")
def poke(x):
    {}
    return x

poke(np.ones(4, np.float32))
"""


def anyop_command(
    *words: str | Path, status: int = 0, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **({"ANYOP_CACHE": str(cache)} if cache else {})}
    done = subprocess.run(
        [sys.executable, "-m", "anyop", *map(str, words)], capture_output=True, text=True,
        check=False, env=env,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "calls"
    done = anyop_command("run", "--record", folder, "--", sys.executable, "-c", PROGRAM)
    assert done.stdout == "3.0\n"
    assert done.stderr == f"6 calls recorded. Try: anyop replay {folder}\n"
    return folder


def test_a_recording_that_is_full_says_so(tmp_path: Path) -> None:
    done = anyop_command(
        "run", "--record", tmp_path, "--calls", "2", "--", sys.executable, "-c", PROGRAM
    )
    assert done.stderr.splitlines()[-2:] == [
        f"2 calls recorded. Try: anyop replay {tmp_path}",
        "A process records 2 calls at most; what it called later is left out. Try: --calls 20",
    ]


def rows(*words: str | Path, status: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(anyop_command(*words, "--json", status=status).stdout)
    return found


def test_equal_calls_are_recorded_once_and_those_of_graphs_too(recorded: Path) -> None:
    assert [row["call"].split("(")[0] for row in rows("replay", recorded)] == [
        "anyop.rms_norm", "anyop.rms_norm",
        "graph lambda", "anyop.add", "anyop.softmax", "anyop.add",
    ]  # fmt: skip


GRAPHS = """
import numpy as np, anyop
w, cache = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(2, 4)
graph = anyop.graph(lambda a, eps: (anyop.add(cache, a, out=cache),
                                    anyop.rms_norm(cache, w[:4], eps=eps))[1],
                    "f32[2, 4]", "float", name="step")
wide = np.ones((2, 8), np.float32)
for k in range(3):
    y = graph((wide * (k + 1))[:, ::2], 0.1)
    if not k:
        np.save(OUT, np.concatenate([y, cache]))

@anyop.define("twice(x: f32[n]) -> (y: f32[n])")
def twice(x):
    return 2 * x
anyop.graph(lambda a: twice(a), "f32[n]", name="python")(np.ones(3, np.float32))
"""


def test_a_graph_is_recorded_with_its_state_and_replayed(tmp_path: Path) -> None:
    import hashlib

    import numpy as np

    program = f"OUT = {str(tmp_path / 'y.npy')!r}\n" + GRAPHS
    folder = tmp_path / "calls"
    done = anyop_command("run", "--record", folder, "--", sys.executable, "-c", program)
    assert "python is recorded by its calls alone: " in done.stderr
    (graph,) = folder.glob("*.graph")  # the first replay of three
    assert json.loads((graph / "call.json").read_text())["numbers"] == {"eps": "0.1"}
    (row,) = rows("replay", graph, "--check")
    assert (row["call"], row["kernel"], row["error"]) == ("graph step", "those of its calls", "")
    y, cache = np.load(tmp_path / "y.npy").reshape(2, 2, 4)
    written = {name: result["digest"] for name, result in row["results"].items()}
    assert sorted(written.values()) == sorted(
        hashlib.sha256(part.tobytes()).hexdigest()[:16] for part in (y, cache)
    )
    assert rows("replay", graph, "--bench")[0]["repeats"] >= 5


def test_a_recorded_graph_that_is_damaged_is_refused(tmp_path: Path) -> None:
    graph = tmp_path / "1-00001-step.graph"
    graph.mkdir()
    done = anyop_command("replay", graph, status=1)
    assert done.stderr == f"replay: {graph} cannot be read: No such file or directory.\n"
    (graph / "call.json").write_text('{"format": "other"}')
    done = anyop_command("replay", graph, status=1)
    assert "is no recorded call: its format is 'other', but must be 'anyop-graph-" in done.stderr


def test_a_replayed_call_gives_what_the_program_computed(recorded: Path) -> None:
    import hashlib

    import anyop
    import numpy as np

    first = rows("replay", recorded, "--check", "--deep")[0]
    y = anyop.rms_norm(np.ones((4, 64), np.float32), np.ones(64, np.float32), eps=1e-5)
    digest = hashlib.sha256(np.asarray(y).tobytes()).hexdigest()[:16]
    assert first["results"] == {"y": {"type": "f32[4, 64]", "digest": digest}}
    assert first["kernel"] == first["recorded_kernel"]


def test_layouts_are_recorded(recorded: Path) -> None:
    from anyop.cli import capsules

    files = capsules.find([recorded])
    over, transposed = capsules.read(files[1]), capsules.read(files[5])
    assert over.layout() == {"y": "x"}
    assert over.tensors["x"][1] == [128, 1]
    assert transposed.tensors["x"][1] == [1, 64]
    assert transposed.run().written["z"][0] == "f32[64, 4]"


def test_a_bench_times_each_call(recorded: Path) -> None:
    for row in rows("replay", recorded, "--bench"):
        assert 0 < row["best_ns"] <= row["median_ns"]


def test_limits_hold_and_are_said(tmp_path: Path) -> None:
    done = anyop_command(
        "run", "--record", tmp_path, "--calls", "2", "--", sys.executable, "-c", PROGRAM
    )
    assert len(list(tmp_path.iterdir())) == 2
    assert "the limits of the recording are reached; later calls are left out." in done.stderr
    done = anyop_command(
        "run", "--record", tmp_path / "each", "--each", "3", "--", sys.executable, "-c", PROGRAM
    )
    assert len(list((tmp_path / "each").iterdir())) == 8


def test_a_finding_is_repeated_from_its_file(tmp_path: Path) -> None:
    program = POKE.format("ctypes.cast(x.ctypes.data, ctypes.POINTER(ctypes.c_float))[0] = 7")
    done = anyop_command(
        "run", "--check", "--record", tmp_path, "--", sys.executable, "-c", program, status=1
    )
    (file,) = tmp_path.glob("*-write-input-*")
    assert f"[write-input]\n  to repeat it: anyop replay --check {file}\n" in done.stderr
    recorded_error = done.stderr
    done = anyop_command("replay", "--check", file, status=1)
    assert "calls user.poke, which no installed package has. Try --library FILE.so" in done.stdout
    source = tmp_path / "poke.py"
    source.write_text(program.replace("poke(np.ones", "0 and poke(np.ones"))
    again = rows("replay", "--check", "--import", source, file, status=1)
    assert again[0]["error"].splitlines()[0] in recorded_error
    assert rows("replay", "--import", source, file)[0]["error"] == ""


@pytest.mark.parametrize("watch", [["--check"], []])
def test_a_crash_in_a_kernel_names_the_call(watch: list[str]) -> None:
    program = POKE.format("ctypes.string_at(8)")
    done = anyop_command("run", *watch, "--", sys.executable, "-c", program, status=139)
    assert done.stderr.splitlines() == [
        "anyop: SIGSEGV in kernel cpu_python of user.poke(x: f32[4])",
        "The program was ended by SIGSEGV.",
    ]


def test_python_tells_its_own_story_after_a_crash() -> None:
    program = "import faulthandler; faulthandler.enable()\n" + POKE.format("ctypes.string_at(8)")
    done = anyop_command("run", "--", sys.executable, "-c", program, status=139)
    assert "anyop: SIGSEGV in kernel cpu_python of user.poke(x: f32[4])\n" in done.stderr
    assert "Fatal Python error: Segmentation fault" in done.stderr


def test_a_profile_tells_calls_times_and_copies(tmp_path: Path) -> None:
    trace = tmp_path / "calls.json"
    done = anyop_command(
        "profile", "--no-ceilings", "--json", "--trace", trace, "--", sys.executable, "-c", PROGRAM
    )
    table = {row["call"]: row for row in json.loads(done.stdout)["rows"]}
    norm = table["rms_norm(x: f32[4, 64], weight: f32[64], eps: 1e-05, weight_offset: 0.0)"]
    assert "3.0\n" in done.stderr
    assert norm["bytes"] == 2 * 4 * 64 * 4 + 64 * 4
    assert norm["kernel_ns"] > 0 and norm["host_ns"] > 0 and norm["gb_per_s"] > 0
    assert table["add(x: f32[64, 4], y: f32[64, 4])"]["copies"] == 2
    assert table["softmax(x: f32[3, 8], scale: 1.0)"]["calls"] == 1
    assert sum(row["calls"] for row in table.values()) == 9
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(events) == 9
    assert {e["name"] for e in events} == {"anyop.rms_norm", "anyop.add", "anyop.softmax"}
    assert all(e["dur"] >= e["args"]["kernel_us"] for e in events)


def test_host_time_has_the_conversions_of_arguments() -> None:
    program = """
import time, numpy as np, anyop

class Slow:
    def __float__(self):
        time.sleep(0.5)
        return 1e-5

x, w = np.ones((4, 64), np.float32), np.ones(64, np.float32)
anyop.rms_norm(x, w, eps=Slow())
anyop.rms_norm(x, w, eps=1e-5)
@anyop.define("twice(x: f32[n]) -> (y: f32[n])")
def twice(x):
    return anyop.mul(x, x)
twice(w)
"""
    done = anyop_command("profile", "--no-ceilings", "--json", "--", sys.executable, "-c", program)
    table = {row["op"]: row for row in json.loads(done.stdout)["rows"]}
    assert table["anyop.rms_norm"]["calls"] == 2
    assert 500e6 < table["anyop.rms_norm"]["host_ns"] < 5e9
    assert all(0 < row["host_ns"] < 500e6 for name, row in table.items() if name[-5:] != "_norm")


def test_a_profile_is_a_table_for_people() -> None:
    done = anyop_command("profile", "--no-ceilings", "--", sys.executable, "-c", PROGRAM)
    assert "rms_norm  cpu_" in done.stdout
    assert "  2 arguments or results were copied" in done.stdout
    done = anyop_command("profile", "--no-ceilings", "--", sys.executable, "-c", "")
    assert done.stdout == "The program called no operator of anyop.\n"


@pytest.mark.parametrize("name", ["run", "profile"])
def test_options_behind_the_command_are_the_programs(name: str) -> None:
    program = "import sys; print(sys.argv[1:])"
    for dashes in (["--"], []):
        done = anyop_command(name, *dashes, sys.executable, "-c", program, "--check", "-h")
        assert done.stdout.startswith("['--check', '-h']\n")
    done = anyop_command(name, "--recrod", "x", "--", "true", status=2)
    assert "--recrod" in done.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["run", "--", "no_such_program"], "there is no program 'no_such_program'."),
        (["run", "--record", "/proc/x", "--", "true"], "/proc/x cannot be written to:"),
        (["replay", "/etc/hostname"], "/etc/hostname is no recorded call"),
        (["replay", "/proc/self/fd"], "holds no recorded call (*.safetensors)."),
    ],
)
def test_what_cannot_be_done_is_one_line(words: list[str], error: str) -> None:
    done = anyop_command(*words, status=1)
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1
