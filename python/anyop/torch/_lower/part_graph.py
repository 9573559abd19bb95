# SPDX-License-Identifier: Apache-2.0
"""Nodes of a torch program as one function of what they need, which a graph calls."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from anyop._graph.host import TORCH, Part, operator, run
from anyop._graph.value import Value
from anyop.torch._lower.building import Building
from anyop.torch._lower.host_code import compiled
from anyop.torch._nodes import converters
from anyop.torch._nodes.lines import place_of
from anyop.torch._nodes.memory import (
    arguments_of,
    draws,
    is_in_place,
    is_laid_out_from_zero,
    nodes_in,
    random_or_effect,
    viewed_by,
    written_by,
)
from anyop.torch._nodes.sizes import Unconverted, expression, signature_text, symbols_of
from anyop.torch._nodes.tensor_types import graph_dtype

_aten = torch.ops.aten
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default)
MAX_PARAMETERS = 38


class KnownValues(Protocol):
    """What a part asks of the values of nodes (values.py)."""

    def fetch(self, node: Node) -> Any: ...
    def put(self, node: Node, value: Any) -> None: ...
    def __contains__(self, node: Node) -> bool: ...


def is_element(node: Node) -> bool:
    return node.target is python_operator.getitem


class PartGraph:
    """exports: the nodes whose values something else reads. n_parameters: of the function."""

    def __init__(self, building: Building, values: KnownValues, nodes: list[Node]) -> None:
        self._building, self._values, self._nodes = building, values, nodes
        self._members = set(nodes)
        self._graph = Graph()
        self._copies: dict[Node, Node] = {}  # nodes of the program in the part's own graph
        self._tensors: dict[Node, Any] = {}  # by what the part is given: its value
        self._numbers: dict[Node, Any] = {}
        self._roots = building.source.roots
        self._writes = {self._roots[n] for node in nodes for n in written_by(node)}
        for node in nodes:
            self._in_part(node)
        self.exports = list(self._exported())
        shapes = [n.meta["val"].shape for n in (*self._tensors, *self.exports)]
        self._symbols = sorted({s for shape in shapes for s in symbols_of(shape)}, key=str)
        self._lists = self._grouped()
        self.n_parameters = len(self._lists) + len(self._numbers) + len(self._symbols)

    def stand_in(self) -> None:
        """Gives the graph inputs for the results: a trial calls nothing."""
        building = self._building
        for node in self.exports:
            value, sizes = node.meta["val"], []
            for d, size in enumerate(value.shape):
                try:
                    sizes.append(str(building.sizes(size)))
                except Unconverted:  # a size of its own
                    sizes.append(building.names.take(f"{node.name}_{d}"))
            type_ = f"{graph_dtype(value)}[{', '.join(sizes)}]"
            made = building.tracer.input(building.names.take_for(node), type_)
            self._accept(node, Value(building.tracer, made))

    def call(self) -> Part:
        """Adds the call to the graph of anyop."""
        building = self._building
        part = self._part()
        building.parts.append(part)
        is_random = any(random_or_effect(n) for n in self._nodes)
        arguments = [building.sizes(s) for s in self._symbols]
        arguments += self._numbers.values()
        given = [[self._tensors[n] for n in many] for many in self._lists]
        arguments += [many if len(many) > 1 else many[0] for many in given]
        arguments += [building.held.token] if is_random else []
        building.tracer.at(part.place)
        if not is_random and all(isinstance(a, int) for a in arguments):
            self._compute(part, arguments)
            return part
        call = operator(self._parameters(is_random), self._results(), TORCH)
        made = call(part.number, *arguments)
        values = made if len(self.exports) > 1 else (made,)
        for node, value in zip(self.exports, values, strict=len(self.exports) > 0):
            self._accept(node, value)
        return part

    def _part(self) -> Part:
        self._graph.output(tuple(self._copies[n] for n in self.exports))
        lists = [[self._copies[n] for n in many] for many in self._lists]
        numbers = [self._copies[n] for n in self._numbers]
        module = self._building.source.module
        function = compiled(self._graph, module, len(self._symbols), numbers, lists)
        return Part(function, [str(n.target) for n in self._nodes], place_of(self._nodes[0]))

    def _compute(self, part: Part, arguments: list[Any]) -> None:
        """What depends on nothing is computed now, and belongs to the graph."""
        made = run(part.number, *arguments)
        many = made if len(self.exports) > 1 else (made,)
        for node, tensor in zip(self.exports, many, strict=True):
            is_written = self._building.is_written(node)
            value = self._building.held.constant(tensor.detach().contiguous(), not is_written)
            self._values.put(node, self._building.copied(value) if is_written else value)

    def _accept(self, node: Node, value: Value) -> None:
        """Takes a result of the call as the value of a node."""
        self._values.put(node, value)
        shown = self._building.tracer.describe(value._id)[3]
        for size, name in zip(node.meta["val"].shape, shown, strict=True):
            self._building.sizes.learn(size, name)

    def _grouped(self) -> list[list[Node]]:
        """The tensors, one by one; in lists of one type where they are too many."""
        if len(self._tensors) + len(self._numbers) + len(self._symbols) <= MAX_PARAMETERS:
            return [[n] for n in self._tensors]
        lists: dict[str, list[Node]] = {}
        for node in self._tensors:
            key = self._type_of(node)
            lists.setdefault(f"{key} {node.name}" if "mut" in key else key, []).append(node)
        return list(lists.values())

    def _type_of(self, node: Node) -> str:
        value = node.meta["val"]
        mut = "mut " if self._roots[node] in self._writes else ""
        return f"{mut}{graph_dtype(value)}[{_dims(value.shape)}]"

    def _parameters(self, is_random: bool) -> list[str]:
        rows = [f"{s}: int" for s in self._symbols]
        rows += [f"i{i}: int" for i in range(len(self._numbers))]
        for i, many in enumerate(self._lists):
            rows.append(f"x{i}: {self._type_of(many[0])}{'*' if len(many) > 1 else ''}")
        return rows + (["token: mut u8[1]"] if is_random else [])

    def _results(self) -> list[str]:
        values = [n.meta["val"] for n in self.exports]
        return [f"y{i}: {graph_dtype(v)}[{_dims(v.shape)}]" for i, v in enumerate(values)]

    def _in_part(self, node: Node) -> Node:
        """The node in the part's own graph."""
        if node not in self._copies:
            self._copies[node] = self._added(node)
        return self._copies[node]

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
        is_written = self._roots[node] in self._writes
        made = self._graph.node_copy(node, lambda n: self._copies[n])
        if node.target in _RESHAPED and not is_written:
            made.target = _aten.reshape.default  # memory may lie in another order than in torch
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
                self._numbers[node] = size
                return self._graph.placeholder(f"n{len(self._numbers)}")
        if node.op != "call_function":
            raise Unconverted(f"{node.name} is a number of the call")
        return self._added_call(node)

    def _added_tensor(self, node: Node) -> Node:
        self._tensors[node] = self._values.fetch(node)
        return self._graph.placeholder(node.name)

    def _read_memory(self, node: Node, made: Node) -> None:
        """Has as_strided, which reads the memory of a view, read it as it lies in torch."""
        source = nodes_in(node.args[0])[0]
        root, dtype = self._roots[source], source.meta["val"].dtype
        if root in self._members and len(node.args) > 3 and root.meta["val"].dtype == dtype:
            source = root
            made.args = (self._in_part(root), *made.args[1:])
        if not is_laid_out_from_zero(source) or not _reads_within(node, source):
            raise Unconverted("as_strided of what lies in another order")
        self._put_in_order(made, [source])

    def _put_in_order(self, made: Node, sources: Iterable[Node]) -> None:
        """What is contiguous in torch may not be in a graph: attention's result is a view there."""
        for source in sources:
            is_tensor = isinstance(source.meta.get("val"), torch.Tensor)
            if is_tensor and self._roots[source] not in self._writes:
                with self._graph.inserting_before(made):
                    ordered = self._graph.call_function(
                        _aten.contiguous.default, (self._copies[source],)
                    )
                made.replace_input_with(self._copies[source], ordered)

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
    return sympy.expand(left).is_nonnegative is True


def _is_lazy(node: Node) -> bool:
    return node.op == "call_function" and converters.find_view(node) is not None


def _check_order(node: Node) -> None:
    """Random numbers are drawn in the order of memory, which is another one in a graph."""
    for value in pytree.tree_leaves([n.meta.get("val") for n in (node, *node.all_input_nodes)]):
        if isinstance(value, torch.Tensor) and not value.is_contiguous():
            raise Unconverted("it draws random numbers in an order that no graph has")


def _dims(shape: Iterable[Any]) -> str:
    return ", ".join(signature_text(n) for n in shape)
