# SPDX-License-Identifier: Apache-2.0
"""What passes over FX graphs have in common."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from anyop.torch._nodes.memory import Writes
from anyop.torch._nodes.sizes import expression, is_same


def only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def call(
    graph: Graph, function: Callable[..., Any], args: tuple[Any, ...], before: Node, **kwargs: Any
) -> Node:
    """A new call before a node, in whose place in the program it stands."""
    with graph.inserting_before(before):
        node = graph.call_function(function, args, kwargs)
    node.meta = {k: v for k, v in before.meta.items() if k in ("stack_trace", "nn_module_stack")}
    node.meta["val"] = evaluated(node)
    return node


def evaluated(node: Node) -> Any:
    """The node's function on the fake values of its arguments: the type of its result."""
    function: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    # Where all arguments are sizes, they do not tell the fake mode; those of the program do.
    values = [n.meta.get("val") for n in node.graph.nodes if n.op == "placeholder"]
    with detect_fake_mode(values) or contextlib.nullcontext(), torch.no_grad():
        return function(*args, **kwargs)


def put(
    graph: Graph, output: Node, function: Callable[..., Any], args: tuple[Any, ...],
    writes: Writes, **kwargs: Any,
) -> Node:  # fmt: skip
    """A new call in the place of a node. Readers still see the node's type and strides."""
    with graph.inserting_before(output):
        made = graph.call_function(function, args, kwargs)
    made.meta = dict(output.meta)
    output.replace_all_uses_with(made)
    writes.replace(output, made)
    return made


def after(graph: Graph, *nodes: Node) -> Node:
    """The first node behind all of these."""
    left = set(nodes)
    for node in graph.nodes:
        if not left:
            found: Node = node
            return found
        left.discard(node)
    raise AssertionError("a graph ends with its output")


_ARGUMENTS = ("placeholder", "get_attr")


def behind(node: Node) -> Node:
    """The node behind this one, behind all arguments of the program and what needs only sizes."""
    found = node.next
    while found.op in _ARGUMENTS or isinstance(found.meta.get("val"), torch.SymInt):
        found = found.next
    return found


def skip(node: Node) -> Node:
    """The node behind alias and detach, which return what they are given."""
    while node.target in (torch.ops.aten.alias.default, torch.ops.aten.detach.default):
        node = node.args[0]  # type: ignore[assignment]
    return node


def top(graph: Graph) -> Node:
    """The first node behind the arguments of a program, where what needs only sizes stands."""
    found: Node = next(n for n in graph.nodes if n.op not in _ARGUMENTS)
    while isinstance(found.meta.get("val"), torch.SymInt):
        found = found.next
    return found


def number(graph: Graph, size: Any, before: Node) -> Any:
    """A size as an argument of a node: an int, or a node that stands before that one; None where
    nothing before it says what the size is."""
    if isinstance(expression(size), int):
        return expression(size)
    values = []
    for node in graph.nodes:
        if node is before:
            break
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and is_same(value, size):
            found: Node = node
            return found
        values.append(node)
    for node in values:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for d, n in enumerate(value.shape):
            if isinstance(n, torch.SymInt) and is_same(n, size):
                # All placeholders of a graph come before its first call.
                place = _last_input(graph) if node.op == "placeholder" else node
                with graph.inserting_after(place):
                    made = graph.call_function(torch.ops.aten.sym_size.int, (node, d))
                made.meta["val"] = n
                return made
    return _sum(graph, size, before)


def _sum(graph: Graph, size: Any, before: Node) -> Node | None:
    """A known size and a number, as those of a cache that has grown."""
    more, rest = expression(size).as_coeff_Add()
    base = number(graph, rest, before) if more != 0 else None
    if base is None:
        return None
    with graph.inserting_before(before):
        made = graph.call_function(operator.add, (base, int(more)))
    made.meta["val"] = base.meta["val"] + int(more)
    return made


def _last_input(graph: Graph) -> Node:
    found: Node = [n for n in graph.nodes if n.op == "placeholder"][-1]
    return found
