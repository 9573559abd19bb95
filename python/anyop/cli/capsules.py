# SPDX-License-Identifier: Apache-2.0
"""Recorded calls: files that `anyop run --record` and check mode write (src/runtime/capsule.h), and
folders of graphs (src/graph/record.h).
"""

from __future__ import annotations

import json
import mmap
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

    def load(self) -> None:
        """Makes the operator available: of an installed package, else of the recorded file."""
        if self.op in _anyop.functions():
            return
        file = Path(self.facts["file"])
        if not file.suffix == ".so" or not file.exists():
            raise anyop.NotAvailable(
                f"replay: {self.path} calls {self.op}, which no installed package has. Try "
                "--library FILE.so, or --import FILE.py for an operator that Python defines."
            )
        anyop.load(file)


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

    def load(self) -> None:
        """Its operators must be there: loading the graph says which is not."""


def read_graph(path: Path) -> GraphCapsule:
    """As read."""
    try:
        facts = json.loads((path / "call.json").read_text())
        if facts["format"] != GRAPH_FORMAT:
            raise ValueError(f"its format is '{facts['format']}'")
    except OSError as error:
        raise anyop.NotAvailable(f"replay: {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None
    return GraphCapsule(path, {**facts, "kernel": GRAPH_KERNELS})


def _damaged(path: Path, error: Exception) -> anyop.InvalidArgument:
    return anyop.InvalidArgument(
        f"replay: {path} is no recorded call ({type(error).__name__}: {error}). Try a "
        "file that anyop run --record wrote."
    )


def read(path: Path) -> Capsule | GraphCapsule:
    """Raises NotAvailable for a file that cannot be read, InvalidArgument for another format."""
    return read_graph(path) if path.is_dir() else read_call(path)


def read_call(path: Path) -> Capsule:
    """As read."""
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        length = int.from_bytes(data[:8], "little")
        header: dict[str, Any] = json.loads(bytes(data[8 : 8 + length]))
        facts = header.pop("__metadata__")
        if facts["format"] != FORMAT:
            raise ValueError(f"its format is '{facts['format']}'")
        strides = {n: json.loads(s) for n, s in _pairs(facts["strides"]).items()}
        begin = 8 + length
        tensors = {
            name: (data[begin + row["data_offsets"][0] : begin + row["data_offsets"][1]],
                   strides.get(name, []))
            for name, row in header.items()
        }  # fmt: skip
    except OSError as error:
        raise anyop.NotAvailable(f"replay: {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None
    return Capsule(path, facts, tensors)


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
    """The elements in double, of any dtype; whole numbers and 8-bit floats as their bits say."""
    kind, data = written[0].partition("[")[0], written[1]
    if kind == "bf16":
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    plain = {
        "f64": "f8",
        "f32": "f4",
        "f16": "f2",
        "i64": "i8",
        "i32": "i4",
        "i16": "i2",
        "i8": "i1",
    }
    return np.frombuffer(data, plain.get(kind, "u1")).astype(np.float64)


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in text.splitlines())
