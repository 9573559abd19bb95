# SPDX-License-Identifier: Apache-2.0
"""Nodes that compute the same become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, Node

from anyop.torch._nodes.memory import Writes, is_random, nodes_in, written_by


def merge(graph: Graph, results: Iterable[Node]) -> None:
    """Merges what results are made of, as far as none of it is written, random or returned."""
    writes, needed = Writes(graph), _behind(results)
    # Two results of a program are two tensors: the caller may write one of them.
    returned = set(nodes_in(graph.output_node().args))
    kept: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node not in needed or not _is_pure(node) or node in returned:
            continue
        if any(writes.at_all(n) for n in (node, *node.all_input_nodes)):
            continue
        same = kept.setdefault(_key(node), node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)


def _behind(results: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    left = list(results)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def _is_pure(node: Node) -> bool:
    is_torchs = isinstance(node.target, torch._ops.OpOverload)
    is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
    return is_torchs and is_tensor and not written_by(node) and not is_random(node)


def _key(node: Node) -> Any:
    """As text, which tells 0, 0.0 and False apart: as numbers they are equal."""
    return node.target, repr(node.args), repr(node.kwargs)
