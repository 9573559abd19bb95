# SPDX-License-Identifier: Apache-2.0
"""Nodes of a torch program as one function of what they need, which a graph calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from anyop._graph.host import TORCH, Part, operator, run
from anyop._graph.value import Value
from anyop.torch._lower.building import Building
from anyop.torch._lower.host_code import compiled
from anyop.torch._lower.part_code import KnownValues, PartCode
from anyop.torch._nodes.lines import place_of
from anyop.torch._nodes.memory import random_or_effect
from anyop.torch._nodes.sizes import Unconverted, signature_text, symbols_of
from anyop.torch._nodes.tensor_types import graph_dtype

# Of an operator's 56 (kMaxParams of include/anyop/signature.h), the part's number and the token of
# random numbers take two.
MAX_PARAMETERS = 54


class PartGraph:
    """exports: the nodes whose values something else reads. n_parameters: of the function."""

    def __init__(self, building: Building, values: KnownValues, nodes: list[Node]) -> None:
        self._building, self._values, self._nodes = building, values, nodes
        self._code = PartCode(building, values, nodes)
        self.exports = self._code.exports
        shapes = [n.meta["val"].shape for n in (*self._code.tensors, *self.exports)]
        self._symbols = sorted({s for shape in shapes for s in symbols_of(shape)}, key=str)
        self._lists = self._grouped()
        self.n_parameters = len(self._lists) + len(self._code.numbers) + len(self._symbols)

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
        arguments += self._code.numbers.values()
        given = [[self._code.tensors[n] for n in many] for many in self._lists]
        arguments += [many if len(many) > 1 else many[0] for many in given]
        arguments += [building.held.token] if is_random else []
        building.tracer.at(part.place)
        if not is_random and all(isinstance(a, int) for a in arguments):
            self._compute(part, arguments)
            return part
        call = operator(self._parameters(is_random), self._results(), TORCH)
        made = call(part.number, *arguments)
        values = made if len(self.exports) > 1 else (made,)
        # A call without results returns None, which is left over here.
        for node, value in zip(self.exports, values, strict=len(self.exports) > 0):
            self._accept(node, value)
        return part

    def _part(self) -> Part:
        self._code.graph.output(tuple(self._code.copies[n] for n in self.exports))
        lists = [[self._code.copies[n] for n in many] for many in self._lists]
        numbers = [self._code.copies[n] for n in self._code.numbers]
        module = self._building.source.module
        function = compiled(self._code.graph, module, len(self._symbols), numbers, lists)
        return Part(function, [str(n.target) for n in self._nodes], place_of(self._nodes[0]))

    def _compute(self, part: Part, arguments: list[Any]) -> None:
        """Computes now what depends on no argument. The results belong to the graph; where the
        program writes one, each call writes a copy of it, so that the next call finds it whole."""
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
        """The tensors, one by one; in lists of one type where they are more than an operator has
        parameters. A tensor that is written stays alone."""
        if len(self._code.tensors) + len(self._code.numbers) + len(self._symbols) <= MAX_PARAMETERS:
            return [[n] for n in self._code.tensors]
        lists: dict[str, list[Node]] = {}
        for node in self._code.tensors:
            key = self._type_of(node)
            lists.setdefault(f"{key} {node.name}" if "mut" in key else key, []).append(node)
        return list(lists.values())

    def _type_of(self, node: Node) -> str:
        value = node.meta["val"]
        mut = "mut " if self._code.roots[node] in self._code.writes else ""
        return f"{mut}{graph_dtype(value)}[{_dims(value.shape)}]"

    def _parameters(self, is_random: bool) -> list[str]:
        rows = [f"{s}: int" for s in self._symbols]
        rows += [f"i{i}: int" for i in range(len(self._code.numbers))]
        for i, many in enumerate(self._lists):
            rows.append(f"x{i}: {self._type_of(many[0])}{'*' if len(many) > 1 else ''}")
        return rows + (["token: mut u8[1]"] if is_random else [])

    def _results(self) -> list[str]:
        values = [n.meta["val"] for n in self.exports]
        return [f"y{i}: {graph_dtype(v)}[{_dims(v.shape)}]" for i, v in enumerate(values)]


def _dims(shape: Iterable[Any]) -> str:
    return ", ".join(signature_text(n) for n in shape)
