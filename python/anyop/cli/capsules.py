# SPDX-License-Identifier: Apache-2.0
"""Recorded calls: files that `anyop run --record` and check mode write
(src/runtime/observe/capsule.h), and folders of graphs (src/graph/record.h).
"""

from __future__ import annotations

import json
import mmap
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anyop
from anyop import _anyop

FORMAT = "anyop-capsule 1"
ENDING = ".safetensors"
GRAPH_FORMAT = "anyop-graph-capsule 1"
GRAPH_ENDING = ".graph"


GRAPH_KERNELS = "those of its calls"
# The texts that a call is made and shown with; the header has more, for people. Those of a line
# are printed.
LINES = ("op", "call", "kernel", "batch_invariant")
LISTS = ("strides", "over", "declined")


@dataclass
class Outcome:
    """What a call did. written: name -> (type, elements) of results and `mut` arguments."""

    kernel: str
    times_ns: list[float]
    written: dict[str, tuple[str, bytes]]


@dataclass
class Capsule:
    """A recorded call. facts: the texts of its header."""

    path: Path
    facts: dict[str, str]
    tensors: dict[str, tuple[memoryview, list[int]]]

    @property
    def op(self) -> str:
        return self.facts["op"]

    @property
    def call(self) -> str:
        return f"{self.op}({self.facts['call']})"

    def layout(self) -> dict[str, str | None]:
        """As `_anyop.replay` takes it."""
        over = _pairs(self.facts["over"])
        return {**over, **dict.fromkeys(self.facts["declined"].splitlines())}

    def run(self, repeats: int = 1) -> Outcome:
        """Makes the call; errors of anyop are those of the call."""
        with anyop.batch_invariant(self.facts["batch_invariant"] == "1"):
            return Outcome(
                *_anyop.replay(self.op, self.facts["call"], self.tensors, self.layout(), repeats)
            )

    def check_operator(self) -> None:
        """Raises NotAvailable where the operator is not there. The library that the file names is
        not loaded: it is code, and whoever made the file has chosen it.
        """
        if self.op not in _anyop.functions():
            raise anyop.NotAvailable(
                f"replay: {self.path} calls {self.op}, which no installed package has. Try "
                "--library FILE.so, or --import FILE.py for an operator that Python defines."
            )


@dataclass
class GraphCapsule:
    """A recorded replay of a graph. facts: as of a call."""

    path: Path
    facts: dict[str, Any]

    @property
    def call(self) -> str:
        return f"graph {self.facts['graph']}"

    def run(self, repeats: int = 1) -> Outcome:
        """Replays it; errors of anyop are those of the replay."""
        with anyop.batch_invariant(self.facts["batch_invariant"] == "1"):
            facts = self.facts
            return Outcome(
                GRAPH_KERNELS,
                *_anyop.replay_graph(str(self.path), facts["strides"], facts["numbers"], repeats),
            )

    def check_operator(self) -> None:
        """Its operators must be there: loading the graph says which is not."""


class DamagedError(ValueError):
    """What is wrong in a file, as a sentence without its full stop."""


def read_graph(path: Path) -> GraphCapsule:
    """As read."""
    try:
        facts = _parsed((path / "call.json").read_bytes(), "call.json")
        _check_format(facts, GRAPH_FORMAT)
        for name in ("graph", "batch_invariant"):
            _check_line(facts, name)
        for name, row in _table(facts, "strides").items():
            if not isinstance(row, list) or not all(type(n) is int for n in row):
                raise DamagedError(f"the strides of {name!r:.60} are no list of whole numbers")
        for name, text in _table(facts, "numbers").items():
            if not isinstance(text, str):
                raise DamagedError(f"the number {name!r:.60} is no text")
    except OSError as error:
        raise anyop.NotAvailable(f"replay: {path} cannot be read: {error.strerror}.") from None
    except DamagedError as error:
        raise _refusal(path, error) from None
    return GraphCapsule(path, {**facts, "kernel": GRAPH_KERNELS})


def _refusal(path: Path, error: Exception) -> anyop.InvalidArgument:
    return anyop.InvalidArgument(
        f"replay: {path} is no recorded call: {error}. Try a file that anyop run --record wrote."
    )


def _parsed(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise DamagedError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise DamagedError(f"{what} is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise DamagedError(f"{what} is no JSON object")
    return found


def _table(row: dict[str, Any], name: str) -> dict[str, Any]:
    found = row.get(name)
    if not isinstance(found, dict):
        raise DamagedError(f"it has no table '{name}'")
    return found


def _check_format(facts: dict[str, Any], wanted: str) -> None:
    if facts.get("format") != wanted:
        raise DamagedError(f"its format is {facts.get('format')!r:.60}, but must be '{wanted}'")


def _check_line(facts: dict[str, Any], name: str) -> None:
    """Lines are printed, so they hold nothing that a terminal obeys."""
    if not isinstance(facts.get(name), str):
        raise DamagedError(f"it has no text '{name}'")
    if not facts[name].isprintable():
        raise DamagedError(f"its text '{name}' holds characters that cannot be printed")


def read(path: Path) -> Capsule | GraphCapsule:
    """Raises NotAvailable for a file that cannot be read, InvalidArgument for another format."""
    return read_graph(path) if path.is_dir() else read_call(path)


def read_call(path: Path) -> Capsule:
    """As read."""
    try:
        data = _mapped(path)
        length = int.from_bytes(data[:8], "little")
        if len(data) < 8 or length > len(data) - 8:
            raise DamagedError("it does not begin with the length of a header that it holds")
        header = _parsed(bytes(data[8 : 8 + length]), "its header")
        facts = _table(header, "__metadata__")
        _check_format(facts, FORMAT)
        for name in LINES:
            _check_line(facts, name)
        for name in LISTS:
            if not isinstance(facts.get(name), str):
                raise DamagedError(f"it has no text '{name}'")
        strides = {name: _strides(name, text) for name, text in _pairs(facts["strides"]).items()}
        _pairs(facts["over"])  # must be pairs
        tensors = {
            name: (_elements(data[8 + length :], name, row), strides.get(name, []))
            for name, row in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise anyop.NotAvailable(f"replay: {path} cannot be read: {error.strerror}.") from None
    except DamagedError as error:
        raise _refusal(path, error) from None
    return Capsule(path, facts, tensors)


def _mapped(path: Path) -> memoryview:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DamagedError("it is no regular file")
        if os.fstat(file).st_size == 0:
            raise DamagedError("it is empty")
        return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(file)


def _elements(data: memoryview, name: str, row: Any) -> memoryview:
    """The bytes of a tensor of the header."""
    offsets = row.get("data_offsets") if isinstance(row, dict) else None
    if isinstance(offsets, list) and [type(n) for n in offsets] == [int, int]:
        begin, end = offsets
        if 0 <= begin <= end <= len(data):
            return data[begin:end]
    raise DamagedError(f"the tensor {name!r:.60} lies outside of the file")


def _strides(name: str, text: str) -> list[int]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(type(n) is int for n in found):
        raise DamagedError(f"the strides of {name!r:.60} are no list of whole numbers")
    return found


def find(paths: Iterable[Path]) -> list[Path]:
    """The files, and those in folders, in the order in which they were recorded."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() and path.suffix != GRAPH_ENDING:
            graphs = set(path.rglob(f"*{GRAPH_ENDING}"))
            calls = {p for p in path.rglob(f"*{ENDING}") if graphs.isdisjoint(p.parents)}
            inside = sorted(graphs | calls)
            if not inside:
                raise anyop.NotAvailable(f"replay: {path} holds no recorded call (*{ENDING}).")
            found += inside
        else:
            found.append(path)
    return found


def numbers(written: tuple[str, bytes]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The elements in double, of any dtype; 8-bit floats as their bits say, complex numbers as
    pairs.
    """
    kind, data = written[0].partition("[")[0], written[1]
    if kind == "bf16":
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    long, sort = next(((long, s) for name, long, s in _anyop.dtypes() if name == kind), ("", ""))
    if sort == "complex":
        return (
            np.frombuffer(data, np.dtype(long)).view(f"f{int(long[7:]) // 16}").astype(np.float64)
        )
    is_plain = sort in ("int", "uint") or kind in ("f64", "f32", "f16")
    return np.frombuffer(data, np.dtype(long) if is_plain else "u1").astype(np.float64)


def _pairs(text: str) -> dict[str, str]:
    pairs = [line.partition(" = ") for line in text.splitlines()]
    if not all(middle for _, middle, _ in pairs):
        raise DamagedError(f"a line of it is no 'name = value': {text!r:.60}")
    return {name: value for name, _, value in pairs}
