# SPDX-License-Identifier: Apache-2.0
"""What became of each node of a program: a report shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch.fx import Node

from anyop._graph.host import Part
from anyop.torch._nodes.lines import place_of


@dataclass
class Row:
    """What became of a node."""

    node: str
    operator: str
    kind: str  # "operator", "view", "host"
    why: str = ""  # of a host node
    place: str = ""
    part: Part | None = None  # of a host node: what runs it


class Rows:
    """A row for each node that was added to the graph; the last word on a node counts."""

    def __init__(self) -> None:
        self._rows: dict[Node, Row] = {}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def nodes(self, kind: str) -> dict[Node, str]:
        """The nodes of a kind, and why they are of it."""
        return {n: row.why for n, row in self._rows.items() if row.kind == kind}

    def is_view(self, node: Node) -> None:
        self._put(node, "view")

    def is_operator(self, node: Node) -> None:
        self._put(node, "operator")

    def is_host(self, node: Node, why: str) -> None:
        self._put(node, "host", why)

    def is_copied(self, node: Node) -> None:
        """A view became an operator."""
        row = self._rows[node]
        row.kind, row.why = "operator", "copied"

    def run_by(self, part: Part, nodes: Iterable[Node]) -> None:
        """Nodes that the host runs together: those of them that have a row."""
        for node in nodes:
            if node in self._rows:
                self._rows[node].part = part

    def _put(self, node: Node, kind: str, why: str = "") -> None:
        self._rows[node] = Row(node.name, name_of(node), kind, why, place_of(node))


def name_of(node: Node) -> str:
    """The operator that a node calls, or the one that it stands for."""
    if "operator" in node.meta:
        return str(node.meta["operator"])
    target = node.target
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(
        target, "__name__", str(target)
    )  # fmt: skip
