# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def attended(side: Any, a: Any) -> Any:
    """Caches are written by vLLM's own operator; the schedule of a step is made once, as there."""
    t, (b, heads, width) = side.torch, a.query.shape
    blocks, block, kv_heads, _ = a.k.shape
    isa = "vec" if block % 32 == 0 else "vec16"
    both = t.zeros(blocks, kv_heads, 2 * block, width, dtype=a.k.dtype)
    caches = both.chunk(2, 2)
    slots = t.arange(blocks * block)
    rows = (c.reshape(-1, kv_heads, width) for c in (a.k, a.v))
    side.ops.cpu_attn_reshape_and_cache(*rows, *caches, slots, isa)
    starts, lengths = t.arange(b + 1, dtype=t.int32), a.lengths
    plan = side.ops.get_scheduler_metadata(
        b, heads, kv_heads, width, lengths, a.query.dtype, starts, True, -1, isa, True, None
    )
    out = t.empty_like(a.query)
    run = partial(
        side.ops.cpu_attention_with_kv_cache, a.query, *caches, out, starts, lengths, width**-0.5,
        True, None, -1, a.table, 0.0, plan, None, None,
    )  # fmt: skip
    return run, out
