# SPDX-License-Identifier: Apache-2.0
"""Writes of rows to a cache, where it lies: index_copy_ and index_put_ along one dimension.

torch refuses an index below 0; here its row is not written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from anyop._graph.value import Value
from anyop.torch._converters import internal
from anyop.torch.names.aten import operator
from anyop.torch.names.aten_composites import flat

_aten = torch.ops.aten
_MAX_BATCH = 16  # one call per row of the batch


def _write(lowering: Any, cache: Value, dim: int, index: Value, rows: Value) -> Any:
    """cache[..., index, ...] = rows."""
    rank = cache.ndim
    if index.ndim != 1 or rows.ndim != rank or rank not in (2, 3, 4):
        return NotImplemented
    shape = [*rows.shape[:dim], index.shape[0], *rows.shape[dim + 1 :]]
    if [str(n) for n in rows.shape] != [str(n) for n in shape]:
        return NotImplemented

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


@internal(_aten.index_copy_.default)
def index_copy(node: Node, lowering: Any, cache: Value, dim: int, index: Value, rows: Value) -> Any:
    return _write(lowering, cache, dim % max(cache.ndim, 1), index, rows)


@internal(_aten.index_put_.default)
def index_put(
    node: Node, lowering: Any, cache: Value, indices: Any, values: Value, accumulate: bool = False
) -> Any:
    """cache[:, :, index] = values, no other form."""
    given = [d for d, index in enumerate(indices) if index is not None]
    if accumulate or len(given) != 1:
        return NotImplemented
    return _write(lowering, cache, given[0], indices[given[0]], values)
