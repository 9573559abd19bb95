# SPDX-License-Identifier: Apache-2.0
"""What a torch program returns, made of a graph's outputs and of the program's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node

from anyop.torch._memory import is_in_place, viewed_by
from anyop.torch._sizes import Unconverted, evaluator, expression

if TYPE_CHECKING:
    from anyop.torch._lower import Lowering

# (arguments of the call, outputs of the graph): one output of the program
Maker = Callable[[Any, Any], Any]


class Outputs:
    def __init__(self, lowering: Lowering, placeholders: Sequence[Node]) -> None:
        self.lowering, self.placeholders = lowering, list(placeholders)
        self.numbers: dict[Node, int] = {}  # by node: which output of the graph it is

    def add(self, returned: Sequence[Any]) -> list[tuple[str, Any]]:
        """Per output: ("graph", its number there) or ("made", a Maker)."""
        self.returned = [n for n in returned if isinstance(n, Node)]
        return [self.one(node) for node in returned]

    def one(self, node: Any) -> tuple[str, Any]:
        if not isinstance(node, Node):
            return "made", lambda args, outs: node
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            size = evaluator(value, self.sources())
            return "made", lambda args, outs: size(args)
        if value is not None and not isinstance(value, torch.Tensor):
            raise Unconverted(f"a {type(value).__name__} is returned")
        root = self.lowering.roots[node]
        if root.op == "placeholder":
            at = self.placeholders.index(root)
            chain = self.chain(node, root)
            return "made", lambda args, outs: chain(args[at])
        if root is not node and root in self.returned and self.is_exact(root):
            number, chain = self.output(root), self.chain(node, root)
            return "made", lambda args, outs: chain(outs[number])
        order = _order(value) if value is not None else None
        if order is None:
            return "graph", self.output(node)
        return self.permuted(node, order)

    def is_exact(self, node: Node) -> bool:
        """Whether the graph returns a node as torch's program has it, in the same order."""
        return node.meta["val"].is_contiguous() and viewed_by(node) is None

    def sources(self) -> dict[Any, str]:
        sources: dict[Any, str] = {}
        for i, node in enumerate(self.placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                sources.setdefault(expression(value), f"args[{i}]")
            elif isinstance(value, torch.Tensor):
                for d, n in enumerate(value.shape):
                    sources.setdefault(expression(n), f"args[{i}].shape[{d}]")
        return {k: v for k, v in sources.items() if not isinstance(k, int) and k.is_Symbol}

    def output(self, node: Node, value: Any = None) -> int:
        if node not in self.numbers:
            value = self.lowering.fetch(node) if value is None else value
            self.numbers[node] = len(self.numbers)
            self.lowering.tracer.output(value, f"out{self.numbers[node]}")
        return self.numbers[node]

    def permuted(self, node: Node, order: list[int]) -> tuple[str, Any]:
        """A graph returns contiguous tensors: this one's dimensions are put back afterwards."""
        number = self.output(node, self.lowering.fetch(node).transpose(order))
        back = [order.index(d) for d in range(len(order))]
        return "made", lambda args, outs: outs[number].permute(back)

    def chain(self, node: Node, root: Node) -> Callable[[Any], Any]:
        """The views from root to node, as a function of torch tensors."""
        if node is root:
            return lambda tensor: tensor
        nodes, at = [], node
        while at is not root:
            nodes.append(at)
            source = viewed_by(at)
            assert source is not None
            at = source
        graph = Graph()
        copies = {root: graph.placeholder("x")}
        for one in reversed(nodes):
            if is_in_place(one):  # what it wrote
                source = viewed_by(one)
                assert source is not None
                copies[one] = copies[source]
                continue
            sources = [n for n in one.all_input_nodes if n not in copies]
            if sources:
                raise Unconverted("a view that depends on sizes is returned")
            copies[one] = graph.node_copy(one, lambda n: copies[n])
        graph.output(copies[node])
        forward: Callable[[Any], Any] = GraphModule(self.lowering.module, graph).forward
        return forward


def _order(value: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost in memory on; None where that is their order."""
    strides = [expression(s) for s in value.stride()]
    if value.is_contiguous() or any(not isinstance(s, int) or s < 1 for s in strides):
        return None
    order = sorted(range(value.dim()), key=lambda d: -strides[d])
    pitch: Any = 1
    for d in reversed(order):
        if strides[d] != pitch:
            return None
        pitch = pitch * expression(value.shape[d])
    return order if order != list(range(value.dim())) else None
