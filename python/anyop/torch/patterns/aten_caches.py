# SPDX-License-Identifier: Apache-2.0
"""Writes of rows to a cache, where it lies: index_copy_ and index_put_ along one dimension.

An index below 0 counts from the end in index_put_, and is an error in index_copy_; the operator
that writes would skip its row. So `wrap_index` looks at it first, once for all caches of a length.

The caches of a batch are blocks to the operator that writes. Where the size of the batch varies,
`first_rows` says where each block begins: it depends on sizes only, so that the host computes it
beside what else it does.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import Graph, Node

from anyop._graph.value import Value
from anyop.torch._nodes.converters import internal
from anyop.torch._nodes.fx import call, number, put, top
from anyop.torch._nodes.memory import Writes
from anyop.torch._nodes.sizes import expression
from anyop.torch.patterns.aten import operator
from anyop.torch.patterns.aten_composites import flat

_aten = torch.ops.aten
_MAX_BATCH = 16  # each row of the batch is a call of its own


def first_rows(batch: int, n: int, length: int) -> Any:
    """i64[batch, n]: the number of the first row of each cache, for each row that is written."""
    return (torch.arange(batch) * length).view(-1, 1).repeat(1, n)


def write_rows(cache: Any, dim: int, index: Any, rows: Any, wraps: bool, first: Any) -> Any:
    """index_put_, which wraps, or index_copy_."""
    if wraps:
        return _aten.index_put_.default(cache, [*[None] * dim, index], rows)
    return _aten.index_copy_.default(cache, dim, index, rows)


# By the schema, passes over a graph see what the function writes (_nodes/memory.py).
write_rows.schema = torch._C.parse_schema(  # type: ignore[attr-defined]
    "write_rows(Tensor(a!) cache, int dim, Tensor index, Tensor rows, bool wraps, Tensor first) "
    "-> Tensor(a!)"
)


@internal(write_rows)
def convert_write_rows(
    node: Node, building: Any, cache: Value, dim: int, index: Value, rows: Value, wraps: bool,
    first: Value,
) -> Any:  # fmt: skip
    return _write(building, cache, dim, index, rows, wraps, first)


def _write(
    building: Any, cache: Value, dim: int, index: Value, rows: Value, wraps: bool,
    first: Value | None = None,
) -> Any:  # fmt: skip
    """cache[..., index, ...] = rows. wraps: whether an index counts from the end below 0."""
    rank = cache.ndim
    if index.ndim != 1 or rank not in (2, 3, 4):
        return NotImplemented
    shape = [*cache.shape[:dim], index.shape[0], *cache.shape[dim + 1 :]]
    if _without_ones(rows.shape) != _without_ones(shape):
        return NotImplemented
    if rows.ndim != rank:
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
    is_short = isinstance(batch, int) and batch <= _MAX_BATCH
    if first is None and not is_short:
        return NotImplemented
    index = building.once("wrap_index", index, cache.shape[dim], wraps)
    if first is not None:
        slots = building.once("add", first, index).reshape([batch * index.shape[0]])
        operator("reshape_and_cache")(flat(building, given), None, into, None, slots)
        return cache
    for b in range(batch):
        one = into[b : b + 1]
        operator("reshape_and_cache")(flat(building, given[b : b + 1]), None, one, None, index)
    return cache


def _without_ones(shape: Any) -> list[str]:
    """Sizes as text, from the first one on that is not 1: others torch leaves out."""
    return [*itertools.dropwhile(lambda n: n == "1", map(str, shape))]


@internal(_aten.index_copy_.default)
def index_copy(node: Node, building: Any, cache: Value, dim: int, index: Value, rows: Value) -> Any:
    return _write(building, cache, dim % max(cache.ndim, 1), index, rows, wraps=False)


@internal(_aten.index_put_.default)
def index_put(
    node: Node, building: Any, cache: Value, indices: Any, values: Value, accumulate: bool = False
) -> Any:
    """cache[:, :, index] = values, no other form."""
    given = [d for d, index in enumerate(indices) if index is not None]
    if accumulate or len(given) != 1:
        return NotImplemented
    return _write(building, cache, given[0], indices[given[0]], values, wraps=True)


def fuse(graph: Graph) -> None:
    """Has the host say where the caches of a batch begin whose size varies."""
    writes = Writes(graph)
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        found = _row_write(node)
        if found is None:
            continue
        cache, dim, index, rows, wraps = found
        value, indices = cache.meta["val"], index.meta["val"]
        if value.dim() != 4 or dim == 0 or indices.dim() != 1:
            continue
        batch, n, length = value.shape[0], indices.shape[0], value.shape[dim]
        if isinstance(expression(batch), int):
            continue
        key = tuple(map(expression, (batch, n, length)))
        if key not in known:
            place = top(graph)
            sizes = [number(graph, size, place) for size in (batch, n, length)]
            if any(size is None for size in sizes):
                continue
            known[key] = call(graph, first_rows, tuple(sizes), place)
        put(graph, node, write_rows, (cache, dim, index, rows, wraps, known[key]), writes)
        graph.erase_node(node)


def _row_write(node: Node) -> tuple[Node, int, Node, Node, bool] | None:
    """(cache, dim, index, rows, wraps) of a node that writes rows along one dimension."""
    args: Any = node.args
    if node.target is _aten.index_copy_.default:
        cache, dim, index, rows = args
        return cache, dim % max(cache.meta["val"].dim(), 1), index, rows, False
    if node.target is not _aten.index_put_.default or (args[3:] or (False,))[0] or node.kwargs:
        return None
    given = [d for d, index in enumerate(args[1]) if index is not None]
    # An index of bools is a mask, which says by its elements how many rows are written.
    if len(given) != 1 or args[1][given[0]].meta["val"].dtype == torch.bool:
        return None
    return args[0], given[0], args[1][given[0]], args[2], True
