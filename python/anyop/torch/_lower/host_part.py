# SPDX-License-Identifier: Apache-2.0
"""Nodes that run through torch, gathered while a graph is made: neighbours become one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from anyop import _anyop
from anyop._graph.host import TORCH, Part, operator, run
from anyop._graph.value import Value
from anyop.torch._lower.host_code import compiled
from anyop.torch._nodes import converters
from anyop.torch._nodes.lines import place_of
from anyop.torch._nodes.memory import (
    Roots,
    draws,
    is_in_place,
    nodes_in,
    random_or_effect,
    viewed_by,
    written_by,
)
from anyop.torch._nodes.sizes import (
    Fatal,
    Sizes,
    Unconverted,
    expression,
    signature_text,
    symbols_of,
)
from anyop.torch._nodes.tensor_types import graph_dtype

_aten = torch.ops.aten
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default)
_MAX_RESULTS, _MAX_PARAMETERS = 8, 38


class Lowering(Protocol):
    """What a part asks of the lowering that it belongs to (lower.py)."""

    module: GraphModule
    tracer: _anyop.Tracer
    sizes: Sizes
    roots: Roots
    written: set[Node]  # roots
    values: dict[Node, Any]
    token_value: Value
    is_trial: bool

    def fetch(self, node: Node) -> Any: ...
    def is_tensor(self, node: Node) -> bool: ...
    def unique(self, node: Node) -> str: ...
    def free_name(self, base: str) -> str: ...
    def copied(self, value: Value) -> Value: ...
    def constant_value(self, tensor: torch.Tensor, is_frozen: bool = True) -> Value: ...
    def add_part(self, part: Part, nodes: Iterable[Node]) -> None: ...


class HostPart:
    """The nodes that wait for the host."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.nodes: dict[Node, None] = {}
        self.written: set[Node] = set()  # roots
        self.read: set[Node] = set()

    def add(self, node: Node) -> None:
        self.nodes[node] = None
        self.read |= {self.lowering.roots[n] for n in node.all_input_nodes}
        self.written |= {self.lowering.roots[n] for n in written_by(node)}

    def holds(self, node: Node) -> bool:
        """Whether a node, or what it is an element of, is not computed yet."""
        if node in self.nodes:
            return True
        is_element = node.op == "call_function" and node not in self.lowering.values
        source = node.args[0] if is_element and _is_element(node) else None
        return isinstance(source, Node) and source in self.nodes

    def writes(self, root: Node) -> bool:
        return root in self.written

    def reads(self, root: Node) -> bool:
        return root in self.read

    def flush(self) -> None:
        """Makes what waits a call of the graph."""
        nodes, self.nodes = list(self.nodes), {}
        self.written, self.read = set(), set()
        if nodes:
            self._emit(nodes)

    def _emit(self, nodes: list[Node]) -> None:
        try:
            part = _PartGraph(self.lowering, nodes)
        except Unconverted as error:
            raise Fatal(f"{nodes[0].target}: {error}") from error
        if self.lowering.is_trial:
            part.stand_in()
            return
        if len(part.exports) > _MAX_RESULTS or part.n_parameters > _MAX_PARAMETERS:
            if len(nodes) == 1:
                raise Fatal(f"{nodes[0].target} has too many arguments or results")
            half = len(nodes) // 2
            self._emit(nodes[:half])
            self._emit(nodes[half:])
            return
        try:
            part.call()
        except (Unconverted, _anyop.Error) as error:
            raise Fatal(f"{nodes[0].target}: {error}") from error


def _is_element(node: Node) -> bool:
    import operator as python_operator

    return node.target is python_operator.getitem


class _PartGraph:
    """Some nodes as a function of what they need."""

    def __init__(self, lowering: Lowering, nodes: list[Node]) -> None:
        self.lowering, self.nodes, self.members = lowering, nodes, set(nodes)
        self.graph = Graph()
        self.copies: dict[Node, Node] = {}
        self.tensors: dict[Node, Any] = {}  # by what the part is given: its value
        self.numbers: dict[Node, Any] = {}
        roots = lowering.roots
        self.writes = {roots[n] for node in nodes for n in written_by(node)}
        for node in nodes:
            self.place(node)
        self.exports = list(self.exported())
        shapes = [n.meta["val"].shape for n in (*self.tensors, *self.exports)]
        self.symbols = sorted({s for shape in shapes for s in symbols_of(shape)}, key=str)
        self.lists = self.grouped()
        self.n_parameters = len(self.lists) + len(self.numbers) + len(self.symbols)

    def grouped(self) -> list[list[Node]]:
        """The tensors, one by one; in lists of one type where they are too many."""
        if len(self.tensors) + len(self.numbers) + len(self.symbols) <= _MAX_PARAMETERS:
            return [[n] for n in self.tensors]
        lists: dict[str, list[Node]] = {}
        for node in self.tensors:
            key = self.type_of(node)
            lists.setdefault(f"{key} {node.name}" if "mut" in key else key, []).append(node)
        self.tensors = {n: self.tensors[n] for many in lists.values() for n in many}
        return list(lists.values())

    def type_of(self, node: Node) -> str:
        value = node.meta["val"]
        mut = "mut " if self.lowering.roots[node] in self.writes else ""
        return f"{mut}{graph_dtype(value)}[{_dims(value.shape)}]"

    def place(self, node: Node) -> Node:
        """The node in the part's own graph."""
        if node not in self.copies:
            self.copies[node] = self.copied(node)
        return self.copies[node]

    def copied(self, node: Node) -> Node:
        value = node.meta.get("val")
        if node in self.members:
            return self.copy(node)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.number(node, value)
        if node.op == "get_attr" and not self.lowering.is_tensor(node):
            return self.copy(node)
        if node.op == "call_function":
            source = viewed_by(node)
            if source is not None and is_in_place(node):
                return self.place(source)
            if source is not None and converters.find_view(node) is not None:
                return self.copy(node)
            if _is_element(node) and self.place_source(node):
                return self.copy(node)
        return self.tensor(node)

    def place_source(self, node: Node) -> bool:
        """Whether what a node is an element of is part of this."""
        source = node.args[0]
        return isinstance(source, Node) and source in self.members

    def copy(self, node: Node) -> Node:
        for argument in node.all_input_nodes:
            self.place(argument)
        is_written = self.lowering.roots[node] in self.writes
        made = self.graph.node_copy(node, lambda n: self.copies[n])
        if node.target in _RESHAPED and not is_written:
            made.target = _aten.reshape.default  # memory may lie in another order than in torch
        if "as_strided" in str(node.target):
            self.read_memory(node, made)
        if draws(node):
            self.check_order(node)
            self.put_in_order(made, node.all_input_nodes)
        return made

    def read_memory(self, node: Node, made: Node) -> None:
        """Has as_strided, which reads the memory of a view, read it as it lies in torch."""
        source = nodes_in(node.args[0])[0]
        root = self.lowering.roots[source]
        if root in self.members and len(node.args) > 3:
            source = root
            made.args = (self.place(root), *made.args[1:])
        value = source.meta["val"]
        if not value.is_contiguous() or expression(value.storage_offset()) != 0:
            raise Unconverted("as_strided of what lies in another order")
        self.put_in_order(made, [source])

    def put_in_order(self, made: Node, sources: Iterable[Node]) -> None:
        """What is contiguous in torch may not be in a graph: attention's result is a view there."""
        for source in sources:
            is_tensor = isinstance(source.meta.get("val"), torch.Tensor)
            if is_tensor and self.lowering.roots[source] not in self.writes:
                with self.graph.inserting_before(made):
                    ordered = self.graph.call_function(
                        _aten.contiguous.default, (self.copies[source],)
                    )
                made.replace_input_with(self.copies[source], ordered)

    def check_order(self, node: Node) -> None:
        """Random numbers are drawn in the order of memory, which is another one in a graph."""
        for value in pytree.tree_leaves([n.meta.get("val") for n in (node, *node.all_input_nodes)]):
            if isinstance(value, torch.Tensor) and not value.is_contiguous():
                raise Unconverted("it draws random numbers in an order that no graph has")

    def number(self, node: Node, value: Any) -> Node:
        if isinstance(value, torch.SymInt):
            symbols_of([value])
            try:
                size = self.lowering.sizes(value)
            except Unconverted:
                size = None
            if size is not None:
                self.numbers[node] = size
                return self.graph.placeholder(f"n{len(self.numbers)}")
        if node.op != "call_function":
            raise Unconverted(f"{node.name} is a number of the call")
        return self.copy(node)

    def tensor(self, node: Node) -> Node:
        self.tensors[node] = self.lowering.fetch(node)
        return self.graph.placeholder(node.name)

    def exported(self) -> Iterator[Node]:
        for node in self.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                if not is_in_place(node) and self.is_used_outside(node):
                    yield node
            elif isinstance(value, (tuple, list)):
                for user in node.users:
                    if _is_element(user) and self.is_used_outside(user):
                        self.place(user)
                        yield user

    def is_used_outside(self, node: Node) -> bool:
        for user in node.users:
            if user in self.members:
                is_alias = user.op == "call_function" and viewed_by(user) is node
                if is_alias and is_in_place(user) and self.is_used_outside(user):
                    return True
            elif user.op == "output" or not self.is_lazy(user) or self.is_used_outside(user):
                return True
        return False

    def is_lazy(self, node: Node) -> bool:
        return node.op == "call_function" and converters.find_view(node) is not None

    def stand_in(self) -> None:
        """Gives the graph inputs for the results: a trial calls nothing."""
        lowering = self.lowering
        for node in self.exports:
            value, sizes = node.meta["val"], []
            for d, size in enumerate(value.shape):
                try:
                    sizes.append(str(lowering.sizes(size)))
                except Unconverted:  # a size of its own
                    sizes.append(lowering.free_name(f"{node.name}_{d}"))
            type_ = f"{graph_dtype(value)}[{', '.join(sizes)}]"
            made = lowering.tracer.input(lowering.unique(node), type_)
            self.take(node, Value(lowering.tracer, made))

    def call(self) -> None:
        """Adds the call to the graph of anyop."""
        lowering = self.lowering
        self.graph.output(tuple(self.copies[n] for n in self.exports))
        lists = [[self.copies[n] for n in many] for many in self.lists]
        numbers = [self.copies[n] for n in self.numbers]
        function = compiled(self.graph, lowering.module, len(self.symbols), numbers, lists)
        names = [str(n.target) for n in self.nodes]
        part = Part(function, names, place_of(self.nodes[0]))
        lowering.add_part(part, self.nodes)
        is_random = any(random_or_effect(n) for n in self.nodes)
        arguments = [lowering.sizes(s) for s in self.symbols]
        arguments += self.numbers.values()
        given = [[self.tensors[n] for n in many] for many in self.lists]
        arguments += [many if len(many) > 1 else many[0] for many in given]
        arguments += [lowering.token_value] if is_random else []
        lowering.tracer.at(part.place)
        if not is_random and all(isinstance(a, int) for a in arguments):
            self.compute(part, arguments)
            return
        call = operator(self.parameters(is_random), self.results(), TORCH)
        made = call(part.number, *arguments)
        values = made if len(self.exports) > 1 else (made,)
        for node, value in zip(self.exports, values, strict=len(self.exports) > 0):
            self.take(node, value)

    def compute(self, part: Part, arguments: list[Any]) -> None:
        """What depends on nothing is computed now, and belongs to the graph."""
        made = run(part.number, *arguments)
        many = made if len(self.exports) > 1 else (made,)
        for node, tensor in zip(self.exports, many, strict=True):
            is_written = self.lowering.roots[node] in self.lowering.written
            value = self.lowering.constant_value(tensor.detach().contiguous(), not is_written)
            self.lowering.values[node] = self.lowering.copied(value) if is_written else value

    def take(self, node: Node, value: Value) -> None:
        self.lowering.values[node] = value
        shown = self.lowering.tracer.describe(value._id)[3]
        for size, name in zip(node.meta["val"].shape, shown, strict=True):
            self.lowering.sizes.learn(size, name)

    def parameters(self, is_random: bool) -> list[str]:
        rows = [f"{s}: int" for s in self.symbols]
        rows += [f"i{i}: int" for i in range(len(self.numbers))]
        for i, many in enumerate(self.lists):
            rows.append(f"x{i}: {self.type_of(many[0])}{'*' if len(many) > 1 else ''}")
        return rows + (["token: mut u8[1]"] if is_random else [])

    def results(self) -> list[str]:
        values = [n.meta["val"] for n in self.exports]
        return [f"y{i}: {graph_dtype(v)}[{_dims(v.shape)}]" for i, v in enumerate(values)]


def _dims(shape: Iterable[Any]) -> str:
    return ", ".join(signature_text(n) for n in shape)
