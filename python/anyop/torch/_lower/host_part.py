# SPDX-License-Identifier: Apache-2.0
"""Nodes that run through torch, gathered while a graph is made: neighbours become one call."""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import Node

from anyop import _anyop
from anyop.hosting.sentences import clause
from anyop.torch._lower.building import Building
from anyop.torch._lower.part_code import KnownValues, is_element
from anyop.torch._lower.part_graph import MAX_PARAMETERS, PartGraph
from anyop.torch._lower.rows import Rows
from anyop.torch._nodes.memory import written_by
from anyop.torch._nodes.sizes import Fatal, Unconverted

_MAX_RESULTS = 8  # of an operator: kMaxResults of include/anyop/signature.h


class HostPart:
    """The nodes that wait for the host. is_trial: nothing computes their values."""

    def __init__(self, building: Building, values: KnownValues, rows: Rows, is_trial: bool) -> None:
        self._building, self._values, self._rows = building, values, rows
        self._is_trial = is_trial
        self._roots = building.source.roots
        self._nodes: dict[Node, None] = {}
        self._written: set[Node] = set()  # roots
        self._read: set[Node] = set()

    def add(self, node: Node) -> None:
        self._nodes[node] = None
        self._read |= {self._roots[n] for n in node.all_input_nodes}
        self._written |= {self._roots[n] for n in written_by(node)}

    def delays(self, node: Node) -> bool:
        """Whether a node, what it is an element of, or a write of its memory still waits."""
        if self._roots[node] in self._written or node in self._nodes:
            return True
        source = node.args[0] if is_element(node) and node not in self._values else None
        return isinstance(source, Node) and source in self._nodes

    def reads(self, nodes: Iterable[Node]) -> bool:
        """Whether something that waits reads the memory of one of these nodes."""
        return any(self._roots[n] in self._read for n in nodes)

    def flush(self) -> None:
        """Makes what waits a call of the graph."""
        nodes, self._nodes = list(self._nodes), {}
        self._written, self._read = set(), set()
        if nodes:
            self._emit(nodes)

    def _emit(self, nodes: list[Node]) -> None:
        try:
            part = PartGraph(self._building, self._values, nodes)
        except Unconverted as error:
            raise self._fatal(nodes[0], error) from error
        if self._is_trial:
            part.stand_in()
            return
        if len(part.exports) > _MAX_RESULTS or part.n_parameters > MAX_PARAMETERS:
            if len(nodes) == 1:
                raise Fatal(f"{nodes[0].target} has too many arguments or results")
            half = len(nodes) // 2  # two calls, each with fewer arguments and results
            self._emit(nodes[:half])
            self._emit(nodes[half:])
            return
        try:
            self._rows.run_by(part.call(), nodes)
        except (Unconverted, _anyop.Error) as error:
            raise self._fatal(nodes[0], error) from error

    def _fatal(self, first: Node, error: Exception) -> Fatal:
        return Fatal(f"{first.target}: {clause(error, self._building.source.name)}")
