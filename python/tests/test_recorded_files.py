# SPDX-License-Identifier: Apache-2.0
"""Recorded calls and graphs that somebody else made: read or refused with a text, whatever they
hold, and no code runs that they name.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop
import pytest
from anyop import _anyop
from anyop.cli import capsules, profile
from fuzzed import mutated, tries

PROGRAM = """
import numpy as np, anyop
x, w = np.ones((4, 8), np.float32), np.ones(8, np.float32)
anyop.rms_norm(x[::2], w, out=x[::2])
anyop.rms_norm(x, None)
anyop.add(x.T, x.T)
graph = anyop.graph(lambda a, eps: anyop.rms_norm(a, w, eps=eps), "f32[n, 8]", "float", name="step")
graph(np.ones((8, 16), np.float32)[::2, ::2], 0.1)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("recorded") / "calls"
    command = [sys.executable, "-m", "anyop", "run", "--record", str(folder), "--", sys.executable]
    subprocess.run([*command, "-c", PROGRAM], check=True, capture_output=True)
    found = capsules.find([folder])
    assert [p.suffix for p in found] == [".safetensors"] * 3 + [".graph", ".safetensors"]
    return found


def changed(path: Path, to: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A call whose header is another."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    return rewritten(to, json.dumps(header), data[end:])


def rewritten(to: Path, header: str, tensors: bytes) -> Path:
    text = header.encode("utf-8", "surrogatepass")
    to.write_bytes(len(text).to_bytes(8, "little") + text + tensors)
    return to


def refusal(path: Path) -> str:
    with pytest.raises(anyop.Error) as refused:
        capsules.read(path).run()
    return str(refused.value)


def test_no_library_is_loaded_that_a_recorded_call_names(
    recorded: list[Path], tmp_path: Path
) -> None:
    source, library, mark = (tmp_path / name for name in ("evil.c", "evil.so", "mark"))
    source.write_text(
        "#include <stdio.h>\n"
        f'__attribute__((constructor)) static void run(void) {{ fclose(fopen("{mark}", "w")); }}\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)

    def change(header: dict[str, Any]) -> None:
        header["__metadata__"] |= {"op": "other_ops.scale", "file": str(library)}

    call = changed(recorded[0], tmp_path / "call.safetensors", change)
    done = subprocess.run(
        [sys.executable, "-m", "anyop", "replay", str(call)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert (
        f"replay: {call} calls other_ops.scale, which no installed package has. Try --library "
        "FILE.so, or --import FILE.py for an operator that Python defines.\n"
    ) in done.stdout
    assert not mark.exists()


def _strides(text: str) -> Callable[[dict[str, Any]], Any]:
    return lambda header: header["__metadata__"].update(strides=f"x = {text}")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_strides(f"[{2**63 - 1}, 64]"), "x is f32[2, 8], but with its strides no memory can"),
        (_strides(f"[{-(2**63)}, 1]"), "x is f32[2, 8], but with its strides no memory can"),
        (_strides(f"[{2**63}, 1]"), f"a stride of x is {2**63}, but must be a whole number of 64"),
        (_strides("[1]"), "x is f32[2, 8], but the file has 1 strides of it. The file is damaged."),
        (_strides("{}"), "is no recorded call: the strides of 'x' are no list of whole numbers."),
        (_strides("[1.5, 1]"), "the strides of 'x' are no list of whole numbers."),
        (_strides("[true, 1]"), "the strides of 'x' are no list of whole numbers."),
        (lambda h: h["__metadata__"].update(strides="x: [1]"), "a line of it is no 'name = value'"),
        (lambda h: h["__metadata__"].update(over="y = w"),
         "y has the memory of 'w', but the call has no such tensor. The file is damaged."),
        (lambda h: h["__metadata__"].update(over=3), "it has no text 'over'."),
        (lambda h: h["__metadata__"].pop("batch_invariant"), "it has no text 'batch_invariant'."),
        (lambda h: h["__metadata__"].pop("call"), "it has no text 'call'."),
        (lambda h: h["__metadata__"].update(call="\x1b[2J"),
         "its text 'call' holds characters that cannot be printed."),
        (lambda h: h["__metadata__"].update(format=1), "its format is 1, but must be 'anyop-cap"),
        (lambda h: h.pop("__metadata__"), "it has no table '__metadata__'."),
        (lambda h: h.pop("x"), "replay: the file has no tensor 'x'."),
        (lambda h: h.update(x=[]), "the tensor 'x' lies outside of the file."),
        (lambda h: h["x"].update(data_offsets=[0]), "the tensor 'x' lies outside of the file."),
        (lambda h: h["x"].update(data_offsets=[0, 2**70]), "the tensor 'x' lies outside of the"),
        (lambda h: h["x"].update(data_offsets=[0, 4]), "the tensor 'x' has 4 bytes, but f32[2, 8]"),
    ],
)  # fmt: skip
def test_a_recorded_call_that_is_damaged_is_refused(
    recorded: list[Path], tmp_path: Path, change: Callable[[dict[str, Any]], Any], why: str
) -> None:
    assert why in refusal(changed(recorded[0], tmp_path / "call.safetensors", change))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty."),
        (b"1234567", "it does not begin with the length of a header that it holds."),
        ((2**64 - 1).to_bytes(8, "little"), "it does not begin with the length of a header"),
        ((2).to_bytes(8, "little") + b"[]", "its header is no JSON object."),
        ((1).to_bytes(8, "little") + b"{", "its header is no JSON ("),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "its header is nested too deeply."),
    ],
)
def test_bytes_that_are_no_recorded_call_are_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "call.safetensors"
    path.write_bytes(data)
    text = refusal(path)
    assert text.startswith(f"replay: {path} is no recorded call: ")
    assert why in text


def test_a_pipe_is_no_recorded_call(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == (
        f"replay: {tmp_path / 'pipe'} is no recorded call: it is no regular file. Try a file that "
        "anyop run --record wrote."
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"strides": {"a": {}}}, "the strides of 'a' are no list of whole numbers."),
        ({"strides": {"a": [2**63 - 1, 64]}}, "a is f32[4, 8], but with its strides no memory"),
        ({"strides": {"a": [2**64, 64]}}, f"a stride of a is {2**64}, but must be"),
        ({"strides": []}, "it has no table 'strides'."),
        ({"numbers": {"eps": 0.1}}, "the number 'eps' is no text."),
        ({"numbers": {"eps": "0.1x"}}, "the number eps is '0.1x', but must be a number."),
        ({"numbers": {}}, "the recorded call lacks the number eps."),
        ({"graph": "\x07"}, "its text 'graph' holds characters that cannot be printed."),
        ({"batch_invariant": None}, "it has no text 'batch_invariant'."),
    ],
)
def test_a_recorded_graph_with_other_facts_is_refused(
    recorded: list[Path], tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    graph = tmp_path / "step.graph"
    shutil.copytree(recorded[3], graph)
    facts = json.loads((graph / "call.json").read_text())
    (graph / "call.json").write_text(json.dumps({**facts, **change}))
    assert why in refusal(graph)


def test_what_replays_refuses_objects_of_other_kinds() -> None:
    row = (memoryview(bytes(8)), [])
    for tensors in ({"x": 3}, {"x": (1,)}, {"x": (row[0], {})}, {"x": (row[0], ["a"])}):
        with pytest.raises(anyop.Error, match="replay: "):
            _anyop.replay("anyop.sigmoid", "x = f32[2]", tensors, {}, 1)
    assert _anyop.replay("anyop.sigmoid", "x = f32[2]", {"x": row}, {}, 1)[2]["y"][0] == "f32[2]"


def is_answered(path: Path) -> bool:
    """Whether it runs; else it is refused by an error of anyop that blames the file."""
    try:
        capsules.read(path).run()
    except anyop.Error as error:
        assert not isinstance(error, anyop.Internal), error
        return False
    return True


def fuzz(seconds: float, try_: Callable[[random.Random], Path]) -> None:
    refused = 0
    for chance in tries(seconds):
        refused += not is_answered(try_(chance))
    assert refused > 0


def test_any_header_of_a_call_is_read_or_refused(recorded: list[Path], tmp_path: Path) -> None:
    files = [p.read_bytes() for p in recorded if p.is_file()]

    def try_(chance: random.Random) -> Path:
        data = chance.choice(files)
        end = 8 + int.from_bytes(data[:8], "little")
        header = mutated(data[8:end].decode(), chance)
        return rewritten(tmp_path / "last.safetensors", header, data[end:])

    fuzz(1.5, try_)


def test_any_facts_of_a_graph_are_read_or_refused(recorded: list[Path], tmp_path: Path) -> None:
    graph = tmp_path / "last.graph"
    shutil.copytree(recorded[3], graph)
    text = (graph / "call.json").read_text()

    def try_(chance: random.Random) -> Path:
        (graph / "call.json").write_text(mutated(text, chance), "utf-8", "surrogatepass")
        return graph

    fuzz(1.5, try_)


def test_any_profile_is_read_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that is ended while it writes leaves a part, and other programs write JSON too."""
    env = {**os.environ, "ANYOP_PROFILE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=env)
    (file,) = tmp_path.glob("*.json")
    text = file.read_text()
    assert len(profile.read(tmp_path)) == 1
    left_out = 0
    for chance in tries(1):
        changed = mutated(text, chance) if chance.random() < 0.8 else text[: chance.randrange(999)]
        file.write_text(changed, "utf-8", "surrogatepass")
        processes = profile.read(tmp_path)
        left_out += not processes
        for row in profile.merged(processes):
            profile.title(row)
        json.dumps(profile.chrome_trace(processes))
    told = capsys.readouterr().err.splitlines()
    assert told == [f"The profile of process {file.stem} is damaged and left out."] * left_out
    assert left_out > 0
