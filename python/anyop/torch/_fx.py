# SPDX-License-Identifier: Apache-2.0
"""What passes over FX graphs have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.node import map_arg


def only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def call(graph: Graph, function: Callable[..., Any], args: tuple[Any, ...], before: Node) -> Node:
    """A new call before a node, in whose place in the program it stands."""
    with graph.inserting_before(before):
        node = graph.call_function(function, args)
    values = map_arg(args, lambda n: n.meta["val"])
    node.meta = {k: v for k, v in before.meta.items() if k in ("stack_trace", "nn_module_stack")}
    with detect_fake_mode(values) or contextlib.nullcontext(), torch.no_grad():
        node.meta["val"] = function(*values)
    return node


def after(graph: Graph, *nodes: Node) -> Node:
    """The first node behind all of these."""
    left = set(nodes)
    for node in graph.nodes:
        if not left:
            found: Node = node
            return found
        left.discard(node)
    raise AssertionError("a graph ends with its output")


def skip(node: Node) -> Node:
    """Behind nodes that change nothing."""
    while node.target in (torch.ops.aten.alias.default, torch.ops.aten.detach.default):
        node = node.args[0]  # type: ignore[assignment]
    return node
