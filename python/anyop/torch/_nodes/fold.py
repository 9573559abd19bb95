# SPDX-License-Identifier: Apache-2.0
"""What depends on nothing that a call gives is computed once, when a graph is made."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from anyop.torch._nodes.memory import Roots, is_impure, is_random, written_by
from anyop.torch._nodes.sizes import expression

_MAX_ELEMENTS = 1 << 24
_LIBRARIES = ("aten", "prims")
PREFIX = "_folded_"


def folded(module: Any, node: Any) -> torch.Tensor | None:
    """The tensor behind a node that was computed when the graph was made; None for others."""
    is_folded = isinstance(node, Node) and node.op == "get_attr" and PREFIX in str(node.target)
    return getattr(module, str(node.target)) if is_folded else None


def fold_constants(module: GraphModule) -> None:
    """Replaces what is computed of constants alone, and read by more than such, by tensors."""
    graph, roots = module.graph, Roots(module.graph)
    written = {roots[n] for node in graph.nodes for n in written_by(node)}
    known: dict[Node, Any] = {}
    for node in graph.nodes:
        constant = folded(module, node)
        if constant is not None:
            known[node] = constant
        elif roots[node] not in written and _is_foldable(node, known):
            known[node] = _computed(node, known)
    for number, (node, value) in enumerate(known.items()):
        is_read = any(user not in known for user in node.users)
        # A result is fresh memory in each call, because the caller may write it.
        is_returned = any(user.op == "output" for user in node.users)
        is_made = node.op == "call_function"
        if is_made and isinstance(value, torch.Tensor) and is_read and not is_returned:
            _replace(module, node, value, f"{PREFIX}{number}")
    graph.eliminate_dead_code(is_impure_node=is_impure)


def _is_foldable(node: Node, known: dict[Node, Any]) -> bool:
    if node.op != "call_function" or not all(n in known for n in node.all_input_nodes):
        return False
    if node.target is not operator.getitem:
        target: Any = node.target
        is_op = isinstance(target, torch._ops.OpOverload) and target.namespace in _LIBRARIES
        if not is_op or is_random(node) or written_by(node) or "empty" in str(node.target):
            return False
    value = node.meta.get("val")
    many = list(value) if isinstance(value, (tuple, list)) else [value]
    return bool(many) and all(map(_is_small, many))


def _is_small(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return False
    sizes = [expression(n) for n in value.shape]
    elements = 1
    for n in sizes:
        if not isinstance(n, int):
            return False
        elements *= n
    return elements <= _MAX_ELEMENTS


def _computed(node: Node, known: dict[Node, Any]) -> Any:
    function: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: known[n])
    return function(*args, **kwargs)


def _replace(module: GraphModule, node: Node, value: torch.Tensor, name: str) -> None:
    module.register_buffer(name, value.contiguous(), persistent=False)
    with module.graph.inserting_before(node):
        made = module.graph.get_attr(name)
    fake = node.meta["val"]
    with detect_fake_mode(fake) or contextlib.nullcontext():
        made.meta = {**node.meta, "val": fake.contiguous()}
    node.replace_all_uses_with(made)
