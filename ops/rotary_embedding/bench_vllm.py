# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def rotated(side: Any, a: Any) -> Any:
    """With a table of the queries' dtype; the first call's result is kept for comparison."""
    tokens, _, width = a.query.shape
    query, key = (x.view(tokens, -1) for x in (a.query, a.key))
    table, turned = a.table.to(query.dtype), a.query.clone()
    rotate = side.ops.rotary_embedding
    rotate(a.positions, turned.view(tokens, -1), key.clone(), width, table, True)
    return partial(rotate, a.positions, query, key, width, table, True), turned
