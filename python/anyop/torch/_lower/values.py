# SPDX-License-Identifier: Apache-2.0
"""The values that nodes have in a graph. Views and constants are made when something reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from anyop import _anyop
from anyop._graph.value import Value
from anyop.hosting.sentences import clause
from anyop.torch._lower.building import Building
from anyop.torch._lower.host_part import HostPart
from anyop.torch._lower.rows import Rows, name_of
from anyop.torch._nodes import converters
from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.memory import is_in_place, viewed_by
from anyop.torch._nodes.sizes import Unconverted


class Values:
    """is_trial: nodes of the host get values that nothing computes."""

    def __init__(self, building: Building, rows: Rows, is_trial: bool) -> None:
        self._building, self._rows = building, rows
        self._known: dict[Node, Any] = {}
        self._host = HostPart(building, self, rows, is_trial)

    def __contains__(self, node: Node) -> bool:
        return node in self._known

    def put(self, node: Node, value: Any) -> None:
        self._known[node] = value

    def on_host(self, node: Node, why: str) -> None:
        """The node waits for the host; its value is there when something reads it."""
        self._host.add(node)
        self._rows.is_host(node, why)

    def flush(self) -> None:
        """Has the host compute all nodes that wait for it."""
        self._host.flush()

    def before_write(self, nodes: Iterable[Node]) -> None:
        """Has the host compute what waits and reads these nodes."""
        if self._host.reads(nodes):
            self._host.flush()

    def fetch(self, node: Node) -> Any:
        """A node's value in the graph, made now where it is a view or still waits for the host."""
        if self._host.delays(node):
            self._host.flush()
        if node in self._known:
            return self._known[node]
        if node.op == "get_attr":
            self._known[node] = self._attribute(node)
        elif is_in_place(node):
            source = viewed_by(node)
            assert source is not None
            return self.fetch(source)
        else:
            self._known[node] = self._view(node)
        return self._known[node]

    def _attribute(self, node: Node) -> Any:
        building = self._building
        known = folded(building.source.module, node)
        if known is not None:
            return building.held.constant(known)
        tensor = building.source.attribute(node)
        if not isinstance(tensor, torch.Tensor):
            raise Unconverted(f"{node.target} is a {type(tensor).__name__}")
        return building.held.attribute(node, tensor)

    def _view(self, node: Node) -> Any:
        """A view in the graph; where it has no such view, a copy that the host makes."""
        found = converters.find_view(node)
        if found is None:
            raise Unconverted(f"{node.format_node()} is not computed")
        source: Any = node.args[0]
        base = self.fetch(source)
        try:
            made = found(node, base, self._building.sizes)
            if isinstance(node.meta.get("val"), torch.Tensor):
                self._building.check_type(node.meta["val"], made)
            return made
        except (Unconverted, _anyop.Error) as error:
            if self._building.is_written(node):  # a copy would be old after the next write
                raise Unconverted(f"{name_of(node)} of what is written: {clause(error)}") from error
            made = self._view_of_copy(node, found, base)
            if made is not None:
                return made
            why = clause(error)
        self._host.flush()
        self.on_host(node, why)
        self._host.flush()
        if node not in self._known:  # a list, of which the host returns the parts that are read
            parts = {user.args[1]: self._known.get(user) for user in node.users}
            self._known[node] = [parts.get(i) for i in range(len(node.meta["val"]))]
        return self._known[node]

    def _view_of_copy(self, node: Node, found: Any, base: Value) -> Any:
        """A view of a copy whose elements lie in order; None where that is no such view either."""
        try:
            made = found(node, self._building.copied(base), self._building.sizes)
            self._building.check_type(node.meta["val"], made)
        except (Unconverted, _anyop.Error):
            return None
        self._rows.is_copied(node)
        return made
