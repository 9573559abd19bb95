# SPDX-License-Identifier: Apache-2.0
"""Writes of our operators in programs that Inductor compiles.

Inductor 2.13 has no lowering of `sym_storage_offset`, which functional programs ask where a view of
an argument begins: it calls the operator on another view, so that another row is written.

It removes a clone before it knows that the memory is written in place later on. An operator that
reads the clone and writes the original would then get one memory for both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from anyop.hosting import when_imported
from anyop.torch._dispatch import inductor


def start() -> None:
    """Takes effect when Inductor is imported."""
    when_imported("torch._inductor.lowering", _lower_offsets)
    when_imported("torch._inductor.fx_passes.post_grad", _keep_clones)


def _lower_offsets() -> None:
    lowering = sys.modules["torch._inductor.lowering"]
    operator = torch.ops.aten.sym_storage_offset.default
    if operator in lowering.lowerings:  # a torch that has one
        return

    def offset(tensor: Any) -> Any:
        graph = sys.modules["torch._inductor.virtualized"].V.graph
        value = graph.current_node.meta["val"]
        return value.node.expr if isinstance(value, torch.SymInt) else int(value)

    lowering.register_lowering(operator)(offset)


def _keep_clones() -> None:
    module: Any = sys.modules["torch._inductor.fx_passes.post_grad"]
    plain, removable = module.remove_noop_ops, module.noop_registry

    def remove(graph: Graph) -> None:
        """torch's pass leaves nodes without a `val` alone, so the copies lose theirs meanwhile."""
        kept = {node: node.meta.pop("val") for node in set(_needed(graph, removable))}
        try:
            plain(graph)
        finally:
            for node, value in kept.items():
                node.meta["val"] = value

    module.remove_noop_ops = remove


def _needed(graph: Graph, removable: Any) -> Iterator[Node]:
    """Copies that an operator of ours reads while it writes the memory that was copied."""
    for node in graph.nodes:
        if node.op != "call_function" or "auto_functionalized" not in str(node.target):
            continue
        operator = node.args[0]
        if not inductor.is_ours(operator):
            continue
        written = [a.name for a in operator._schema.arguments if a.is_write]
        bases = node.kwargs.get("_all_bases", [node.kwargs.get(name) for name in written])
        memory = {list(_way(base, removable))[-1] for base in bases if isinstance(base, Node)}
        read = {k: v for k, v in node.kwargs.items() if k != "_all_bases" and k not in written}
        for leaf in pytree.tree_leaves(read):
            way = list(_way(leaf, removable)) if isinstance(leaf, Node) else []
            if way and way[-1] in memory:
                yield from (step for step in way if step.target in removable)


def _way(node: Node, removable: Any) -> Iterator[Node]:
    """From a tensor back to the memory of its elements: through views and copies of all of them."""
    at: Any = node
    while isinstance(at, Node):
        yield at
        if at.op != "call_function" or not at.args:
            return
        target: Any = at.target
        if target in removable:
            _, source = removable[target]
            at = at.args[source] if isinstance(source, int) else source(at.args)
        else:
            at = at.args[0] if getattr(target, "is_view", False) else None
