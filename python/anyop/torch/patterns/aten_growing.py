# SPDX-License-Identifier: Apache-2.0
"""Rows that are appended to others, as caches grow: torch.cat along the dimension before the last.

Nothing of anyop's joins tensors, but `embedding` gathers rows: those of the first tensor, with its
last one repeated where the second tensor's are then written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from anyop.torch._nodes.converters import internal
from anyop.torch._nodes.fx import call, number, put, top
from anyop.torch._nodes.memory import Writes
from anyop.torch._nodes.sizes import expression
from anyop.torch._proof import proof
from anyop.torch._proof.trials import Trial
from anyop.torch.patterns.aten import operator

_aten = torch.ops.aten


def rows_of(n: int, more: int, *outer: int) -> Any:
    """[.., n + more]: as which row of x [.., n, d] each row of the result begins."""
    rows, step = torch.arange(n + more).clamp(max=n - 1), n
    for size in reversed(outer):
        rows = torch.arange(size).view(-1, *[1] * rows.dim()) * step + rows
        step = step * size
    return rows


def appended(x: Any, y: Any, rows: Any) -> Any:
    """x [.., n, d] with y [.., more, d] behind its rows."""
    return _appended(None, x, y, rows)


@internal(appended)
def convert_appended(node: Node, building: Any, x: Any, y: Any, rows: Any) -> Any:
    return _appended(building, x, y, rows)


def _appended(building: Any, x: Any, y: Any, rows: Any) -> Any:
    *outer, n, d = x.shape
    count: Any = 1
    for size in (*outer, n):
        count = count * size
    made = operator("embedding")(rows, x.reshape([count, d]))
    dtype = building.dtype(y) if building else y.dtype
    operator("cast")(y, dtype, False, out=made[(slice(None),) * len(outer) + (slice(n, None),)])
    return made


def fuse(graph: Graph) -> None:
    writes = Writes(graph)
    for node in list(graph.nodes):
        if node.target is _aten.cat.default:
            _append(graph, node, writes)


def _append(graph: Graph, node: Node, writes: Writes) -> None:
    given: Any = node.args[0]
    values = [x.meta["val"] for x in given]
    rank = node.meta["val"].dim()
    dim = (node.args[1:] or (0,))[0]
    if len(given) != 2 or rank < 3 or dim % rank != rank - 2:
        return
    if any(v.dim() != rank or v.dtype != node.meta["val"].dtype for v in values):
        return
    n, more = (v.shape[-2] for v in values)
    if not statically_known_true(n >= 1):  # there must be a last row to repeat
        return
    if isinstance(expression(n), int) and not statically_known_true(more <= n):
        return  # most rows would be written twice

    def replacement(trial: Trial) -> Any:
        x, y = trial.tensors
        return appended(x, y, rows_of(x.shape[-2], y.shape[-2], *x.shape[:-2]))

    if not proof.holds(node, given, replacement, "appended", writes):
        return
    place = top(graph)
    sizes = [number(graph, size, place) for size in (n, more, *values[0].shape[:-2])]
    if not any(size is None for size in sizes):
        put(graph, node, appended, (*given, _rows(graph, sizes, place)), writes)


def _rows(graph: Graph, sizes: list[Any], before: Node) -> Node:
    for node in graph.nodes:
        if node.target is rows_of and list(node.args) == sizes:
            found: Node = node
            return found
    return call(graph, rows_of, tuple(sizes), before)
