# SPDX-License-Identifier: Apache-2.0
"""The times of a graph's nodes: measured, or read from what `anyop graph --profile --json` said."""

from __future__ import annotations

import json
import timeit
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

import anyop

FIELDS = ("ns_min", "ns_median", "share")


@dataclass(frozen=True)
class Profile:
    """nodes: FIELDS of each, none where nothing was measured. call_ns: of a whole call."""

    nodes: Sequence[dict[str, float]] = ()
    call_ns: float = 0.0
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def on(self) -> str:
        """Processor and day."""
        return f"{self.machine['cpu']}, {self.machine['date'][:10]}" if self.machine else ""


NOT_MEASURED = Profile()


def measure(graph: anyop.Graph, given: Sequence[Any], repeats: int) -> Profile:
    from anyop.bench import runs

    nodes = [
        {f: getattr(node, f) for f in FIELDS} for node in graph.profile(*given, repeats=repeats)
    ]
    call_ns = 1e9 * min(timeit.repeat(lambda: graph(*given), number=1, repeat=repeats))
    return Profile(nodes, call_ns, runs.machine())


def read(path: Path, graph: anyop.Graph, sizes: dict[str, int]) -> Profile:
    """Those of the same graph at the same sizes; everything else is a ClickException."""
    name = click.format_filename(path)
    try:
        told = json.loads(path.read_bytes())
        nodes = [{f: float(node[f]) for f in FIELDS} for node in told["nodes"]]
        made = Profile(nodes, float(told["call_ns"]), dict(told["machine"]))
        calls = [str(node["call"]) for node in told["nodes"]]
        _ = made.on, dict(told["sizes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise click.ClickException(
            f"{name} holds no profile of a graph ({type(error).__name__}: {error}). Try one that "
            "anyop graph --profile --json printed."
        ) from None
    of_graph = [str(node["call"]) for node in json.loads(graph.describe(**sizes))["nodes"]]
    if calls != of_graph or told["sizes"] != sizes:
        raise click.ClickException(
            f"{name} is a profile of another graph, or at other sizes: {len(calls)} calls at "
            f"{told['sizes']}, but {graph.name} has {len(of_graph)} at {sizes}. Try measuring "
            "again."
        )
    return made
