# SPDX-License-Identifier: Apache-2.0
"""A part of a torch program as one Python function, without what a GraphModule does beside."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node


def compiled(
    graph: Graph, module: Any, n_symbols: int, numbers: Sequence[Node], lists: Sequence[list[Node]]
) -> Callable[..., Any]:
    """The function of what an operator of the host is given: sizes that nothing reads, numbers,
    tensors (lists of several where there are many), and perhaps a token. It returns the only
    result, a tuple of several, or None."""
    return _Code(graph, module).function(n_symbols, numbers, lists)


class _Code:
    def __init__(self, graph: Graph, module: Any) -> None:
        self.graph, self.module = graph, module
        self.names: dict[Node, str] = {}
        self.known: dict[str, Any] = {}  # the function's globals
        self.last = {n: user for user in graph.nodes for n in user.all_input_nodes}

    def name(self, node: Node) -> str:
        return self.names.setdefault(node, f"v{len(self.names)}")

    def function(
        self, n_symbols: int, numbers: Sequence[Node], lists: Sequence[list[Node]]
    ) -> Callable[..., Any]:
        parameters = [f"_{i}" for i in range(n_symbols)] + [self.name(n) for n in numbers]
        lines = []
        for i, many in enumerate(lists):
            parameters.append(self.name(many[0]) if len(many) == 1 else f"many{i}")
            if len(many) > 1:
                lines.append(f"{', '.join(self.name(n) for n in many)}, = many{i}")
        lines += [line for node in self.graph.nodes for line in self.lines(node)]
        text = f"def run({', '.join([*parameters, '*_'])}):\n" + "".join(
            f"    {line}\n" for line in lines
        )
        exec(compile(text, "<host node>", "exec"), self.known)
        made: Callable[..., Any] = self.known["run"]
        return made

    def lines(self, node: Node) -> list[str]:
        if node.op == "placeholder":
            return []
        if node.op == "output":
            results: Any = node.args[0]
            shown = ", ".join(self.shown(r) for r in results)
            return [f"return {shown}" if results else "return None"]
        if node.op == "get_attr":
            value = self.module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return [f"{self.name(node)} = {self.constant(value)}"]
        # A name that keeps a tensor keeps its memory, so it is let go after the last use.
        dead = [self.name(n) for n in node.all_input_nodes if self.last[n] is node]
        freed = [f"{' = '.join(dead)} = None"] if dead else []
        return [f"{self.name(node)} = {self.called(node)}", *freed]

    def called(self, node: Node) -> str:
        if node.target is operator.getitem and isinstance(node.args[1], int):
            return f"{self.shown(node.args[0])}[{node.args[1]}]"
        arguments = [self.shown(a) for a in node.args]
        arguments += [f"{key}={self.shown(a)}" for key, a in node.kwargs.items()]
        return f"{self.constant(_fastest(node))}({', '.join(arguments)})"

    def shown(self, argument: Any) -> str:
        if isinstance(argument, Node):
            return self.name(argument)
        if isinstance(argument, tuple):
            return f"({''.join(f'{self.shown(a)}, ' for a in argument)})"
        if isinstance(argument, list):
            return f"[{', '.join(self.shown(a) for a in argument)}]"
        return self.constant(argument)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = value
        return name


def _fastest(node: Node) -> Any:
    """The same code as a node's target, with less of Python around it."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target
    name = target._schema.name.partition("::")[2]
    is_plain = len(target._schema.arguments) == 1 == len(node.args) and not node.kwargs
    if is_plain and target._overloadname == "default" and target.namespace == "aten":
        found = getattr(torch._C._VariableFunctions, name, None)
        if found is not None:
            return found
    return getattr(target, "_op", target)
