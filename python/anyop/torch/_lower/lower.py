# SPDX-License-Identifier: Apache-2.0
"""An FX graph of ATen and anyop operators as a graph of anyop's."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from anyop import _anyop
from anyop._graph.host import TORCH, Part, operator
from anyop._graph.value import Value
from anyop.torch._dispatch.operators import DTYPES
from anyop.torch._lower.defects import log_defect
from anyop.torch._lower.host_part import HostPart
from anyop.torch._lower.outputs import Maker, Recipes, Returned, permuted
from anyop.torch._lower.schedule import scheduled
from anyop.torch._nodes import converters
from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.lines import place_of
from anyop.torch._nodes.memory import (
    Roots,
    is_in_place,
    random_or_effect,
    tensors_in,
    viewed_by,
    written_by,
)
from anyop.torch._nodes.sizes import (
    Fatal,
    Sizes,
    Unconverted,
    attribute,
    expression,
    is_same,
    symbols_of,
)
from anyop.torch._nodes.tensor_types import graph_dtype, tensor_type
from anyop.torch._nodes.view_chain import chain
from anyop.torch.names import aten, aten_caches, aten_composites, aten_views  # noqa: F401


@dataclass
class Row:
    """What became of a node."""

    node: str
    operator: str
    kind: str  # "operator", "view", "host"
    why: str = ""  # of a host node
    place: str = ""
    part: Any = None  # of a host node: the Part that runs it


@dataclass
class Lowered:
    """inputs: the places of the arguments that the graph takes. returned: the program's results."""

    graph: Any
    inputs: list[int]
    returned: Returned
    rows: list[Row] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    bound: list[tuple[int, torch.Tensor, bool]] = field(default_factory=list)


class Lowering:
    """One program. bound: tensors that stay what they are, by placeholder; others are inputs."""

    def __init__(
        self, module: GraphModule, bound: dict[Node, torch.Tensor], frozen: bool, name: str,
        symbols: Mapping[Any, str] | None = None, is_trial: bool = False,
    ) -> None:  # fmt: skip
        self.module, self.bound, self.frozen = module, bound, frozen
        self.name, self.symbol_names, self.is_trial = name, symbols or {}, is_trial
        self.tracer = _anyop.Tracer(name)
        self.sizes = Sizes(self.tracer, symbols or {})
        self.roots = Roots(module.graph)
        self.written = {
            self.roots[n] for node in module.graph.nodes for n in written_by(node)
        }  # roots
        self.values: dict[Node, Any] = {}
        self.host = HostPart(self)
        self.inputs: list[int] = []
        self.given: set[Any] = set()  # symbols that are arguments
        self.rows: dict[Node, Row] = {}
        self.parts: list[Any] = []
        self.constants: dict[Node, torch.Tensor] = {}
        self.made_tensors: list[torch.Tensor] = []
        self.made_values: dict[Any, Value] = {}  # by what they are
        self.made_rows: dict[Any, Value] = {}
        self.names = {self.sizes.name(s) for s in self.symbols()}  # that are taken
        self.token = torch.zeros(1, dtype=torch.uint8)  # random parts write it, which orders them
        self.token_value = Value(self.tracer, self.tracer.state("token", self.token, False))

    def run(self, recipes: Recipes, is_single: bool = False) -> Lowered:
        """is_single: the program returns a tensor, and the graph too if nothing is made of it."""
        self.add_inputs()
        rounds, host = self.schedule()
        for nodes in rounds:
            for node in nodes:
                self.tracer.at(place_of(node))
                self.add(node, host)
            self.host.flush()
        returned = self.add_outputs(recipes)
        graph = self.tracer.compile(None if is_single and returned.is_plain else tuple)
        rows = list(self.rows.values())
        for row in rows:
            if row.kind == "host" and _anyop.is_strict():
                at = f" at {row.place}" if row.place else ""
                raise Unconverted(f"{row.operator}{at} has no operator of anyop's: {row.why}")
        return Lowered(graph, self.inputs, returned, rows, self.parts, self.rows_of_bound())

    def schedule(self) -> tuple[list[list[Node]], dict[Node, str]]:
        """The order of the nodes with the fewest calls of the host, and which run there, and why:
        a trial tells which have an operator."""
        for node in self.module.graph.nodes:
            if node.op not in ("call_function", "placeholder", "get_attr", "output"):
                raise Unconverted(f"{node.format_node()}")
        trial = Lowering(
            self.module, self.bound, self.frozen, self.name, self.symbol_names, is_trial=True
        )
        trial.try_nodes()
        host = {n: row.why for n, row in trial.rows.items() if row.kind == "host"}
        ours = {n for n, row in trial.rows.items() if row.kind == "operator"}
        made = scheduled(self.module.graph, host, ours, random_or_effect)
        return made.rounds, {**host, **dict.fromkeys(made.joined, "between host nodes")}

    def try_nodes(self) -> None:
        """Finds out which nodes have an operator, in a graph that is made for nothing else."""
        self.add_inputs()
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.add(node)

    def add_inputs(self) -> None:
        for i, node in enumerate(n for n in self.module.graph.nodes if n.op == "placeholder"):
            self.add_input(i, node)

    def symbols(self) -> set[Any]:
        """Of the sizes of all arguments."""
        found: set[Any] = set()
        for node in self.module.graph.nodes:
            value = node.meta.get("val") if node.op == "placeholder" else None
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            found |= symbols_of(n for n in sizes if isinstance(n, torch.SymInt))
        return found

    def add_input(self, place: int, node: Node) -> None:
        if node in self.bound:
            state = self.tracer.state(self.unique(node), self.bound[node], self.is_frozen(node))
            self.values[node] = Value(self.tracer, state)
            return
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            symbols_of(value.shape)
            type_ = tensor_type(value, self.sizes)
        elif isinstance(value, torch.SymInt):
            if isinstance(expression(value), int) or not expression(value).is_Symbol:
                return  # computed from sizes that tensors have
            if expression(value) in self.given:
                return  # another argument is the same number
            self.given.add(expression(value))
            type_ = "int"
        elif value is None or isinstance(value, int):
            return
        else:
            raise Unconverted(f"an argument is a {type(value).__name__}")
        name = self.sizes.name(expression(value)) if type_ == "int" else self.unique(node)
        number = self.tracer.input(name, type_)
        if type_ != "int":
            self.values[node] = Value(self.tracer, number)
        self.inputs.append(place)

    def unique(self, node: Node) -> str:
        """A name in the graph for an argument or a bound tensor, which no size has either."""
        base = re.sub(r"\W", "_", node.name)
        return self.free_name(base if not base[:1].isdigit() else f"_{base}")

    def free_name(self, base: str) -> str:
        name = next(n for n in itertools.chain([base], (f"{base}_{i}" for i in itertools.count(1)))
                    if n not in self.names)  # fmt: skip
        self.names.add(name)
        return name

    def add(self, node: Node, host: Mapping[Node, str] | None = None) -> None:
        """host: nodes that run through torch, and why."""
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
            return  # computed where it is needed
        why = host.get(node, "") if host is not None else ""
        if not why and self.is_lazy(node):
            self.rows[node] = Row(node.name, _name(node), "view", place=place_of(node))
            return
        why = why or self.convert(node)
        if why:
            self.host.add(node)
            self.rows[node] = Row(node.name, _name(node), "host", why, place_of(node))
        else:
            self.rows[node] = Row(node.name, _name(node), "operator", place=place_of(node))

    def is_lazy(self, node: Node) -> bool:
        """Views and elements of what several are returned in are made where they are used."""
        return converters.find_view(node) is not None

    def convert(self, node: Node) -> str:
        """Makes a node part of the graph; "" if that went well, else why not."""
        found = converters.find(node, self)
        if found is None:
            return "no converter"
        is_written = False
        try:
            for tensor in tensors_in(node.meta.get("val")):
                graph_dtype(tensor)
            args, kwargs = map_arg((node.args, node.kwargs), self.check)
            if written_by(node):
                for written in written_by(node):
                    self.check_strides(written)
                if any(self.host.reads(self.roots[n]) for n in written_by(node)):
                    self.host.flush()
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
            why = str(error).partition("\n")[0] or type(error).__name__
            if not isinstance(error, (Unconverted, _anyop.Error)):
                if _anyop.is_strict():
                    raise
                log_defect(f"{_name(node)} at {place_of(node)}", error)
                why = f"{type(error).__name__}: {why}"
            if is_written:
                raise Fatal(f"{_name(node)}: {why}") from error
            return why
        return ""

    def check(self, node: Node) -> Node:
        """Refuses what no graph can hold, before anything is moved for it."""
        for tensor in tensors_in(node.meta.get("val")):
            graph_dtype(tensor)
        return node

    def check_strides(self, node: Node) -> None:
        """Refuses what an operator of ours cannot write: rows must lie in order."""
        value = self.in_graph(node)
        if value.dim() and not is_same(value.shape[-1], 1) and not is_same(value.stride(-1), 1):
            raise Unconverted("it writes elements that do not lie beside each other")

    def in_graph(self, node: Node) -> Any:
        """A node's fake value with the strides that it has in the graph, where memory that is not
        a view is contiguous."""
        root = self.roots[node]
        value = root.meta["val"]
        with detect_fake_mode(value) or contextlib.nullcontext():
            value = torch.empty(value.shape, dtype=value.dtype, device=value.device)
            for step in chain(node, root, lambda n: n.meta["val"]):
                value = step(value, lambda argument: argument)
        return value

    def argument(self, node: Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self.sizes(value)
        if isinstance(value, (torch.SymBool, torch.SymFloat)):
            raise Unconverted("a number that depends on sizes")
        return value if isinstance(value, (int, float, bool)) else self.fetch(node)

    def fetch(self, node: Node) -> Any:
        """A node's value in the graph, made now where it is a view or still waits for the host."""
        if self.host.writes(self.roots[node]) or self.host.holds(node):
            self.host.flush()
        if node in self.values:
            return self.values[node]
        if node.op == "get_attr":
            self.values[node] = self.constant(node)
        elif is_in_place(node):
            source = viewed_by(node)
            assert source is not None
            return self.fetch(source)
        else:
            self.values[node] = self.view(node)
        return self.values[node]

    def view(self, node: Node) -> Any:
        """A view in the graph; where it has no such view, a copy that the host makes."""
        found = converters.find_view(node)
        if found is None:
            raise Unconverted(f"{node.format_node()} is not computed")
        source: Any = node.args[0]
        base = self.fetch(source)
        try:
            made = found(node, base, self.sizes)
            if isinstance(node.meta.get("val"), torch.Tensor):
                self.compare(node.meta["val"], made)
            return made
        except (Unconverted, _anyop.Error) as error:
            if self.roots[node] in self.written:  # a copy would be old after the next write
                raise Unconverted(f"{_name(node)} of what is written: {error}") from error
            made = self.copied_view(node, found, base)
            if made is not None:
                return made
            why = str(error).partition("\n")[0]
        self.host.flush()
        self.host.add(node)
        self.rows[node] = Row(node.name, _name(node), "host", why, place_of(node))
        self.host.flush()
        if node not in self.values:  # a list, of which the host returns the parts that are read
            parts = {user.args[1]: self.values.get(user) for user in node.users}
            self.values[node] = [parts.get(i) for i in range(len(node.meta["val"]))]
        return self.values[node]

    def copied_view(self, node: Node, found: Any, base: Value) -> Any:
        """A view of a copy whose elements lie in order; None where that is no such view either."""
        try:
            made = found(node, self.copied(base), self.sizes)
            self.compare(node.meta["val"], made)
        except (Unconverted, _anyop.Error):
            return None
        row = self.rows[node]
        row.kind, row.why = "operator", "copied"
        return made

    def is_tensor(self, node: Node) -> bool:
        """Whether an attribute is one: it may change between calls."""
        return isinstance(attribute(self.module, str(node.target)), torch.Tensor)

    def constant(self, node: Node) -> Any:
        known = folded(self.module, node)
        if known is not None:
            return self.constant_value(known)
        tensor = attribute(self.module, str(node.target))
        if not isinstance(tensor, torch.Tensor):
            raise Unconverted(f"{node.target} is a {type(tensor).__name__}")
        same = [n for n, t in self.constants.items() if t is tensor]
        if same:
            return self.values[same[0]]
        self.constants[node] = tensor
        state = self.tracer.state(self.unique(node), tensor.detach(), self.is_frozen(node))
        return Value(self.tracer, state)

    def constant_value(self, tensor: torch.Tensor, is_frozen: bool = True) -> Value:
        """A tensor that belongs to the graph."""
        self.made_tensors.append(tensor)
        name = f"constant{len(self.made_tensors)}"
        return Value(self.tracer, self.tracer.state(name, tensor, is_frozen))

    def constant_row(self, numbers: Iterable[Any], dtype: torch.dtype) -> Value:
        """Numbers that belong to the graph: one tensor for all who ask for the same."""
        row = list(numbers)
        key = (dtype, *map(repr, row))
        if key not in self.made_rows:
            self.made_rows[key] = self.constant_value(torch.tensor(row, dtype=dtype))
        return self.made_rows[key]

    def copied(self, value: Value) -> Value:
        """Fresh memory in each call, with elements in order."""
        return aten.contiguous(self, value)

    def starts(self, batch: int, length: Any) -> Value:
        """i32[batch + 1]: where each sequence of so many tokens begins, and where the last ends."""
        key = ("starts", batch, str(length))
        found = self.made_values.get(key)
        if found is not None:
            return found
        if isinstance(length, int):
            numbers = range(0, batch * length + 1, length) if length else [0] * (batch + 1)
            made = self.constant_row(numbers, torch.int32)
        else:

            def run(n: int) -> torch.Tensor:
                return torch.arange(batch + 1, dtype=torch.int32) * n

            part = Part(run, ["arange"], "")
            self.parts.append(part)
            made = operator(["n: int"], [f"y0: i32[{batch + 1}]"], TORCH)(part.number, length)
        self.made_values[key] = made
        return made

    def once(self, name: str, index: Value, *numbers: Any) -> Value:
        """A call of an operator on an index, for all who ask for the same."""
        key = (name, index._id, *map(str, numbers))
        if key not in self.made_values:
            self.made_values[key] = aten.operator(name)(index, *numbers)
        return self.made_values[key]

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
                self.compare(want, got)
        self.values[node] = tuple(many) if isinstance(value, (tuple, list)) else made

    def compare(self, want: torch.Tensor, got: Any) -> None:
        _, shown, dtype, shape = self.tracer.describe(got._id)
        is_alike = dtype == DTYPES.get(want.dtype) and len(shape) == want.dim()
        if not is_alike or any(
            str(self.sizes(n)) != str(m) for n, m in zip(want.shape, shape, strict=True)
        ):
            raise Unconverted(f"its converter made {shown}, but torch {want.dtype}{[*want.shape]}")

    def add_outputs(self, recipes: Recipes) -> Returned:
        """The graph returns what the output node names: results by recipe, then left writes."""
        (output,) = (n for n in self.module.graph.nodes if n.op == "output")
        fixes: list[Maker | None] = []
        for k, node in enumerate(output.args[0]):
            value: Value = self.fetch(node)
            fix, order = None, list(range(value.ndim))
            if k < len(recipes.results):
                found = recipes.results[k].order()
                if found is None:
                    fix = recipes.results[k].restrided()
                elif found != order:
                    fix, value = permuted(k, found), value.transpose(found)
            fixes.append(fix)
            self.tracer.output(value, f"out{k}")
        return Returned(recipes.makers, fixes)

    def add_part(self, part: Any, nodes: Iterable[Node]) -> None:
        """Nodes that the host runs: in the program's rows, those that have one."""
        self.parts.append(part)
        for node in nodes:
            if node in self.rows:
                self.rows[node].part = part

    def rows_of_bound(self) -> list[tuple[int, torch.Tensor, bool]]:
        """Rows of BoundTensors."""
        nodes = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        rows = [(nodes.index(n), t, self.is_frozen(n)) for n, t in self.bound.items()]
        return rows + [(-1, t, self.is_frozen(n)) for n, t in self.constants.items()]

    def is_frozen(self, node: Node) -> bool:
        tensor = self.bound.get(node, self.constants.get(node))
        is_counted = tensor is not None and not tensor.is_inference()
        return self.frozen and node not in self.written and is_counted


def _name(node: Node) -> str:
    if "operator" in node.meta:  # what it stands for
        return str(node.meta["operator"])
    target = node.target
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(
        target, "__name__", str(target)
    )  # fmt: skip
