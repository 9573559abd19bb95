# SPDX-License-Identifier: Apache-2.0
"""An FX graph of ATen and anyop operators as a graph of anyop's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from anyop import _anyop
from anyop._graph.host import Part
from anyop._graph.value import Value
from anyop.hosting.sentences import clause
from anyop.torch._lower.building import Building
from anyop.torch._lower.defects import log_defect
from anyop.torch._lower.outputs import Maker, Recipes, Returned, permuted
from anyop.torch._lower.promised import correct
from anyop.torch._lower.rows import Row, Rows, name_of
from anyop.torch._lower.schedule import scheduled
from anyop.torch._lower.source import Source
from anyop.torch._lower.values import Values
from anyop.torch._nodes import converters
from anyop.torch._nodes.lines import place_of
from anyop.torch._nodes.memory import is_in_place, random_or_effect, tensors_in, written_by
from anyop.torch._nodes.sizes import Fatal, Unconverted, expression, is_same, symbols_of
from anyop.torch._nodes.tensor_types import graph_dtype, tensor_type
from anyop.torch.patterns import (  # noqa: F401
    aten,
    aten_caches,
    aten_composites,
    aten_convolution,
    aten_views,
)


@dataclass(frozen=True)
class Lowered:
    """inputs: the places of the arguments that the graph takes. returned: the program's results.
    bound: rows of HeldTensors. kept: tensors that must live as long as the graph."""

    graph: Any
    inputs: list[int]
    returned: Returned
    rows: list[Row]
    parts: list[Part]
    bound: list[tuple[int, torch.Tensor, bool]]
    kept: list[torch.Tensor]


def lower(source: Source, recipes: Recipes, is_single: bool = False) -> Lowered:
    """Makes the graph. is_single: the program returns a tensor, and the graph too if nothing is
    made of it.

    In the program's order first: that tells which nodes the host runs. Where there are such, the
    graph is made again, in the order with the fewest calls of the host.
    """
    graph = source.module.graph
    for node in graph.nodes:
        if node.op not in ("call_function", "placeholder", "get_attr", "output"):
            raise Unconverted(f"{node.format_node()}")
    first = Lowering(source, is_trial=True)
    first.add_nodes([n for n in graph.nodes if n.op == "call_function"])
    returned = None if first.host_nodes() else first.add_outputs(recipes)
    # A result may be a view that no graph has: then reading it has made a node of the host.
    if returned is not None and not first.host_nodes():
        return first.compiled(returned, is_single)
    host, ours = first.host_nodes(), first.own_nodes()
    corrected = correct(source.module, host)
    if corrected:  # converters may answer otherwise for the right types: all is lowered anew
        (output,) = (n for n in graph.nodes if n.op == "output")
        for result, node in zip(recipes.results, output.args[0], strict=False):
            result.fake = node.meta["val"] if node in corrected else result.fake
        return lower(source, recipes, is_single)
    made = scheduled(graph, host, ours, random_or_effect)
    second = Lowering(source)
    for nodes in made.rounds:
        second.add_nodes(nodes, {**host, **dict.fromkeys(made.joined, "between host nodes")})
        second.end_round()
    return second.compiled(second.add_outputs(recipes), is_single)


class Lowering:
    """The steps that make one graph. is_trial: the graph is made to find out which nodes have an
    operator. Where all of them have one, it is the program's graph."""

    def __init__(self, source: Source, is_trial: bool = False) -> None:
        self._source = source
        self._building = Building(source)
        self._rows = Rows()
        self._values = Values(self._building, self._rows, is_trial)
        self._inputs = self.add_inputs()

    def host_nodes(self) -> dict[Node, str]:
        """The nodes that run through torch, and why each has no operator."""
        return self._rows.nodes("host")

    def own_nodes(self) -> dict[Node, str]:
        return self._rows.nodes("operator")

    def add_nodes(self, nodes: Iterable[Node], host: Mapping[Node, str] | None = None) -> None:
        """host: nodes that run through torch, and why."""
        for node in nodes:
            self._building.tracer.at(place_of(node))
            self.add(node, host)

    def end_round(self) -> None:
        """The host runs what waits for it."""
        self._values.flush()

    def compiled(self, returned: Returned, is_single: bool) -> Lowered:
        building = self._building
        graph = building.tracer.compile(None if is_single and returned.is_plain else tuple)
        for row in self._rows:
            if row.kind == "host" and _anyop.is_strict():
                at = f" at {row.place}" if row.place else ""
                raise Unconverted(f"{row.operator}{at} has no operator of anyop's: {row.why}")
        held = building.held
        return Lowered(
            graph, self._inputs, returned, list(self._rows), building.parts, held.bound_rows(),
            held.made(),
        )  # fmt: skip

    def add_inputs(self) -> list[int]:
        """The places of the arguments that the graph takes."""
        taken: list[int] = []
        given: set[Any] = set()  # symbols that are arguments
        for place, node in enumerate(self._source.placeholders):
            if node in self._source.bound:
                self._values.put(node, self._building.held.argument(node))
            elif self._add_input(node, given):
                taken.append(place)
        return taken

    def _add_input(self, node: Node, given: set[Any]) -> bool:
        """Whether the graph takes it."""
        building = self._building
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            symbols_of(value.shape)
            number = building.tracer.input(
                building.names.take_for(node), tensor_type(value, building.sizes)
            )
            self._values.put(node, Value(building.tracer, number))
            return True
        if isinstance(value, torch.SymInt):
            symbol = expression(value)
            if isinstance(symbol, int) or not symbol.is_Symbol or symbol in given:
                return False  # computed from sizes that tensors have, or given by another argument
            given.add(symbol)
            building.tracer.input(building.sizes.name(symbol), "int")
            return True
        if value is None or isinstance(value, int):
            return False
        raise Unconverted(f"an argument is a {type(value).__name__}")

    def add(self, node: Node, host: Mapping[Node, str] | None = None) -> None:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
            return  # computed where it is needed
        why = host.get(node, "") if host is not None else ""
        if not why and converters.find_view(node) is not None:
            self._rows.is_view(node)  # it is made where it is used
            return
        why = why or self.convert(node)
        if why:
            self._values.on_host(node, why)
        else:
            self._rows.is_operator(node)

    def convert(self, node: Node) -> str:
        """Makes a node part of the graph; "" if that went well, else why not."""
        found = converters.find(node, self._building)
        if found is None:
            return "no converter"
        is_written = False
        try:
            for tensor in tensors_in(node.meta.get("val")):
                graph_dtype(tensor)
            args, kwargs = map_arg((node.args, node.kwargs), _checked)
            for written in written_by(node):
                self.check_strides(written)
            self._values.before_write(written_by(node))
            args, kwargs = map_arg((node.args, node.kwargs), self.argument)
            made = found(*args, **kwargs)
            if made is NotImplemented:
                return "its converter does not take these arguments"
            if written_by(node):
                is_written = True
            self.accept(node, made)
        except Fatal:
            raise
        except Exception as error:
            why = clause(error)
            # Other errors are defects of ours, which must not stop a program that torch can run.
            if not isinstance(error, (Unconverted, _anyop.Error)):
                if _anyop.is_strict():
                    raise
                log_defect(f"{name_of(node)} at {place_of(node)}", error)
                why = f"{type(error).__name__}: {why}"
            if is_written:  # the graph has the write already: the host would make it again
                raise Fatal(f"{name_of(node)}: {why}") from error
            return why
        return ""

    def check_strides(self, node: Node) -> None:
        """Refuses what an operator of ours cannot write: rows must lie in order."""
        value = self._source.value_in_graph(node)
        if value.dim() and not is_same(value.shape[-1], 1) and not is_same(value.stride(-1), 1):
            raise Unconverted("it writes elements that do not lie beside each other")

    def argument(self, node: Node) -> Any:
        """The value, size or number that a converter is given for a node."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self._building.sizes(value)
        if isinstance(value, (torch.SymBool, torch.SymFloat)):
            raise Unconverted("a number that depends on sizes")
        return value if isinstance(value, (int, float, bool)) else self._values.fetch(node)

    def accept(self, node: Node, made: Any) -> None:
        """Takes what a converter made, if it is what torch would have made."""
        value = node.meta.get("val")
        if written_by(node) and (value is None or is_in_place(node)):
            return
        expected = list(value) if isinstance(value, (tuple, list)) else [value]
        many = list(made) if isinstance(made, (tuple, list)) else [made]
        if not expected and made is None:
            return
        if len(expected) != len(many):
            raise Unconverted(f"its converter made {len(many)} results of {len(expected)}")
        for want, got in zip(expected, many, strict=True):
            if isinstance(want, torch.Tensor) and got is not None:
                self._building.check_type(want, got)
        self._values.put(node, tuple(many) if isinstance(value, (tuple, list)) else made)

    def add_outputs(self, recipes: Recipes) -> Returned:
        """The graph returns what the output node names: results by recipe, then left writes."""
        (output,) = (n for n in self._source.module.graph.nodes if n.op == "output")
        fixes: list[Maker | None] = []
        for k, node in enumerate(output.args[0]):
            value: Value = self._values.fetch(node)
            fix, order = None, list(range(value.ndim))
            if k < len(recipes.results):
                found = recipes.results[k].order()
                if found is None:
                    fix = recipes.results[k].restrided()
                elif found != order:
                    fix, value = permuted(k, found), value.transpose(found)
            fixes.append(fix)
            self._building.tracer.output(value, f"out{k}")
        return Returned(recipes.makers, fixes)


def _checked(node: Node) -> Node:
    """Refuses what no graph can hold, before anything is moved for it."""
    for tensor in tensors_in(node.meta.get("val")):
        graph_dtype(tensor)
    return node
