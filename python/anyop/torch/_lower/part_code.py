# SPDX-License-Identifier: Apache-2.0
"""Nodes of a torch program in a torch graph of their own, and what that graph is given."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from anyop.torch._lower.building import Building
from anyop.torch._nodes import converters
from anyop.torch._nodes.memory import (
    arguments_of,
    draws,
    is_in_place,
    is_laid_out_from_zero,
    nodes_in,
    viewed_by,
    written_by,
)
from anyop.torch._nodes.sizes import Unconverted, expression, symbols_of

_aten = torch.ops.aten
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default)


class KnownValues(Protocol):
    """What a part asks of the values of nodes (values.py)."""

    def fetch(self, node: Node) -> Any: ...
    def put(self, node: Node, value: Any) -> None: ...
    def __contains__(self, node: Node) -> bool: ...


def is_element(node: Node) -> bool:
    return node.target is python_operator.getitem


class PartCode:
    """graph: the nodes as calls, without its output. copies: the program's nodes in it.

    tensors, numbers: what the graph is given, by node, in the order of its placeholders' names.
    exports: the nodes whose values something else reads. writes: roots of memory that it writes.
    """

    def __init__(self, building: Building, values: KnownValues, nodes: list[Node]) -> None:
        self._building, self._values, self._nodes = building, values, nodes
        self._members = set(nodes)
        self.graph = Graph()
        self.copies: dict[Node, Node] = {}
        self.tensors: dict[Node, Any] = {}
        self.numbers: dict[Node, Any] = {}
        self.roots = building.source.roots
        self.writes = {self.roots[n] for node in nodes for n in written_by(node)}
        for node in nodes:
            self._in_part(node)
        self.exports = list(self._exported())

    def _in_part(self, node: Node) -> Node:
        """The node in the part's own graph."""
        if node not in self.copies:
            self.copies[node] = self._added(node)
        return self.copies[node]

    def _added(self, node: Node) -> Node:
        """Adds a node as a call or as a parameter."""
        value = node.meta.get("val")
        if node in self._members:
            return self._added_call(node)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._added_number(node, value)
        if node.op == "get_attr":
            is_tensor = isinstance(self._building.source.attribute(node), torch.Tensor)
            return self._added_tensor(node) if is_tensor else self._added_call(node)
        if node.op == "call_function":
            source = viewed_by(node)
            if source is not None and is_in_place(node):
                return self._in_part(source)
            if source is not None and converters.find_view(node) is not None:
                return self._added_call(node)
            if is_element(node) and node.args[0] in self._members:
                return self._added_call(node)
        return self._added_tensor(node)

    def _added_call(self, node: Node) -> Node:
        for argument in node.all_input_nodes:
            self._in_part(argument)
        is_written = self.roots[node] in self.writes
        made = self.graph.node_copy(node, lambda n: self.copies[n])
        if node.target in _RESHAPED and not is_written:
            # Elements may lie in another order than in torch, which no view can read; reshape
            # copies them then. What is written stays a view, since a copy would get the write.
            made.target = _aten.reshape.default
        if "as_strided" in str(node.target):
            self._read_memory(node, made)
        if draws(node):
            _check_order(node)
            self._put_in_order(made, node.all_input_nodes)
        return made

    def _added_number(self, node: Node, value: Any) -> Node:
        if isinstance(value, torch.SymInt):
            symbols_of([value])
            try:
                size = self._building.sizes(value)
            except Unconverted:
                size = None
            if size is not None:
                self.numbers[node] = size
                return self.graph.placeholder(f"n{len(self.numbers)}")
        if node.op != "call_function":
            raise Unconverted(f"{node.name} is a number of the call")
        return self._added_call(node)

    def _added_tensor(self, node: Node) -> Node:
        self.tensors[node] = self._values.fetch(node)
        return self.graph.placeholder(node.name)

    def _read_memory(self, node: Node, made: Node) -> None:
        """Has as_strided, which reads the memory of a view, read it as it lies in torch."""
        source = nodes_in(node.args[0])[0]
        root, dtype = self.roots[source], source.meta["val"].dtype
        if root in self._members and len(node.args) > 3 and root.meta["val"].dtype == dtype:
            source = root
            made.args = (self._in_part(root), *made.args[1:])
        if not is_laid_out_from_zero(source) or not _reads_within(node, source):
            raise Unconverted("as_strided of what lies in another order")
        self._put_in_order(made, [source])

    def _put_in_order(self, made: Node, sources: Iterable[Node]) -> None:
        """Puts sources in order: what is contiguous in torch may not be so in a graph, where
        attention's result is a view. What is written stays, since a copy would get the write."""
        for source in sources:
            is_tensor = isinstance(source.meta.get("val"), torch.Tensor)
            if is_tensor and self.roots[source] not in self.writes:
                with self.graph.inserting_before(made):
                    ordered = self.graph.call_function(
                        _aten.contiguous.default, (self.copies[source],)
                    )
                made.replace_input_with(self.copies[source], ordered)

    def _exported(self) -> Iterator[Node]:
        for node in self._nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                if not is_in_place(node) and self._is_used_outside(node):
                    yield node
            elif isinstance(value, (tuple, list)):
                for user in node.users:
                    if is_element(user) and self._is_used_outside(user):
                        self._in_part(user)
                        yield user

    def _is_used_outside(self, node: Node) -> bool:
        for user in node.users:
            if user in self._members:
                is_alias = user.op == "call_function" and viewed_by(user) is node
                if is_alias and is_in_place(user) and self._is_used_outside(user):
                    return True
            elif user.op == "output" or not _is_lazy(user) or self._is_used_outside(user):
                return True
        return False


def _reads_within(node: Node, source: Node) -> bool:
    """Whether as_strided reads elements of its source alone, not what lies behind."""
    given = {parameter.name: value for parameter, value in arguments_of(node)}

    def number(n: Any) -> Any:
        return expression(n.meta["val"] if isinstance(n, Node) else n)

    last = number(given.get("storage_offset") or 0)
    for n, stride in zip(given["size"], given["stride"], strict=True):
        last += (number(n) - 1) * number(stride)
    left = expression(source.meta["val"].numel()) - 1 - last
    return sympy.expand(left).is_nonnegative is True  # None where nobody knows


def _is_lazy(node: Node) -> bool:
    return node.op == "call_function" and converters.find_view(node) is not None


def _check_order(node: Node) -> None:
    """Random numbers are drawn in the order of memory, which is another one in a graph."""
    for value in pytree.tree_leaves([n.meta.get("val") for n in (node, *node.all_input_nodes)]):
        if isinstance(value, torch.Tensor) and not value.is_contiguous():
            raise Unconverted("it draws random numbers in an order that no graph has")
