# SPDX-License-Identifier: Apache-2.0
"""Writes of rows to a cache, where it lies: index_copy_ and index_put_ along one dimension.

An index below 0 counts from the end in index_put_, and is an error in index_copy_; the operator
that writes would skip its row. So `wrap_index` looks at it first, once for all caches of a length.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import Node

from anyop._graph.value import Value
from anyop.torch._nodes.converters import internal
from anyop.torch.names.aten import operator
from anyop.torch.names.aten_composites import flat

_aten = torch.ops.aten
_MAX_BATCH = 16  # one call per row of the batch


def _write(
    building: Any, cache: Value, dim: int, index: Value, rows: Value, wraps: bool
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
    if not isinstance(batch, int) or batch > _MAX_BATCH:
        return NotImplemented
    index = building.once("wrap_index", index, cache.shape[dim], wraps)
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
