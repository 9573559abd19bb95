# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def stored(side: Any, a: Any) -> Any:
    """Into caches [blocks, heads, tokens of a block, width], as vLLM's attention reads them."""
    caches = [c.transpose(1, 2).contiguous() for c in (a.key_cache, a.value_cache)]
    block = caches[0].shape[2]
    isa = "vec" if block % 32 == 0 else "vec16"
    run = partial(side.ops.cpu_attn_reshape_and_cache, a.key, a.value, *caches, a.slots, isa)
    return run, caches[1].transpose(1, 2)
