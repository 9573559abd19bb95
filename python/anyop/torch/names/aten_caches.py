# SPDX-License-Identifier: Apache-2.0
"""Writes of rows to a cache, where it lies: index_copy_ and index_put_ along one dimension.

An index below 0 counts from the end in index_put_, and is an error in index_copy_. The operator
that writes skips its row. So torch looks at each index first, once for all caches of a length.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import Graph, Node

from anyop._graph.value import Value
from anyop.torch._converters import internal
from anyop.torch._fx import call, number
from anyop.torch._memory import Writes
from anyop.torch.names.aten import operator
from anyop.torch.names.aten_composites import flat

_aten = torch.ops.aten
_MAX_BATCH = 16  # one call per row of the batch
_WHOLE = (torch.int32, torch.int64)


def rows_from_start(index: Any, n: int) -> Any:
    """Rows of n, counted from the first on. torch's error where there is no such row."""
    return torch.arange(n)[index]


def rows_as_given(index: Any, n: int) -> Any:
    """The same, where none may be counted from the end."""
    return torch.arange(n).index_select(0, index)


def fuse(graph: Graph) -> None:
    writes = Writes(graph)
    made: dict[Any, Node] = {}
    for node in list(graph.nodes):
        found = _index_of(node)
        if found is None:
            continue
        index, dim, function = found
        place = node if writes.at_all(index) else _behind(index)
        n = number(graph, node.args[0].meta["val"].shape[dim], place)
        if n is None:
            continue
        key = (function, index, n, node if writes.at_all(index) else None)
        if key not in made:
            made[key] = call(graph, function, (index, n), place)
        if function is rows_as_given:
            node.update_arg(2, made[key])
        else:
            indices: Any = node.args[1]
            node.update_arg(1, [made[key] if i is index else i for i in indices])


def _index_of(node: Node) -> tuple[Node, int, Any] | None:
    """The index of a write of rows, the dimension that it counts, and what checks it."""
    args: Any = node.args
    function: Any = rows_as_given
    if node.target is _aten.index_copy_.default:
        _, dim, index, _ = args
    elif node.target is _aten.index_put_.default:
        given = [(d, i) for d, i in enumerate(args[1]) if i is not None]
        if len(given) != 1 or len(args) > 3 or node.kwargs:
            return None
        (dim, index), function = given[0], rows_from_start
    else:
        return None
    rank = args[0].meta["val"].dim()
    value = index.meta["val"] if isinstance(index, Node) else None
    if value is None or value.dtype not in _WHOLE or value.dim() != 1 or not rank:
        return None
    return index, dim % rank, function


def _behind(node: Node) -> Node:
    """The node behind this one, and behind all arguments."""
    after = node.next
    while after.op in ("placeholder", "get_attr"):
        after = after.next
    return after


def _write(lowering: Any, cache: Value, dim: int, index: Value, rows: Value) -> Any:
    """cache[..., index, ...] = rows."""
    rank = cache.ndim
    if index.ndim != 1 or rank not in (2, 3, 4):
        return NotImplemented
    shape = [*cache.shape[:dim], index.shape[0], *cache.shape[dim + 1 :]]
    if _without_ones(rows.shape) != _without_ones(shape):
        return NotImplemented
    rows = rows.reshape(shape)

    def four(x: Value) -> Value | None:  # [b, n, h, d]
        if rank == 2:
            return x.reshape([1, x.shape[0], 1, x.shape[1]]) if dim == 0 else None
        if rank == 3:
            return x.reshape([1, *x.shape] if dim == 0 else [*x.shape[:2], 1, x.shape[2]])
        return x if dim == 1 else x.swapaxes(1, 2)

    if dim not in ((0,), (0, 1), (1, 2))[rank - 2]:
        return NotImplemented
    into, given = four(cache), four(rows)
    assert into is not None and given is not None
    batch = into.shape[0]
    if not isinstance(batch, int) or batch > _MAX_BATCH:
        return NotImplemented
    for b in range(batch):
        one = into[b : b + 1]
        operator("reshape_and_cache")(flat(lowering, given[b : b + 1]), None, one, None, index)
    return cache


def _without_ones(shape: Any) -> list[str]:
    """Sizes as text, from the first one on that is not 1: others torch leaves out."""
    return [*itertools.dropwhile(lambda n: n == "1", map(str, shape))]


def _is_checked(index: Any) -> bool:
    return isinstance(index, Node) and index.target in (rows_from_start, rows_as_given)


@internal(_aten.index_copy_.default)
def index_copy(node: Node, lowering: Any, cache: Value, dim: int, index: Value, rows: Value) -> Any:
    if not _is_checked(node.args[2]):
        return NotImplemented
    return _write(lowering, cache, dim % max(cache.ndim, 1), index, rows)


@internal(_aten.index_put_.default)
def index_put(
    node: Node, lowering: Any, cache: Value, indices: Any, values: Value, accumulate: bool = False
) -> Any:
    """cache[:, :, index] = values, no other form."""
    given = [d for d, index in enumerate(indices) if index is not None]
    nodes: Any = node.args[1]
    if accumulate or len(given) != 1 or not _is_checked(nodes[given[0]]):
        return NotImplemented
    return _write(lowering, cache, given[0], indices[given[0]], values)
