# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any

BLOCK = 16  # the only one that the kernel has


def decoded(side: Any, a: Any) -> Any:
    """Its cache has both halves of a key side by side."""
    t, table = side.torch, a.table.long()
    keys = t.cat([cache[table].flatten(1, 2) for cache in (a.kv, a.rope)], -1)
    b, length, width = keys.shape
    blocks = t.randperm(b * length // BLOCK, generator=t.Generator().manual_seed(0))
    cache = t.empty(len(blocks), BLOCK, width, dtype=keys.dtype)
    cache[blocks] = keys.reshape(-1, BLOCK, width)
    query, out = t.cat([a.q_nope, a.q_rope], -1), t.empty_like(a.q_nope)
    blocks = blocks.reshape(b, -1).to(t.int32)
    run = partial(side.ops.mla_decode_kvcache, out, query, cache, a.scale, blocks, a.lengths)
    return run, out
