# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def product(side: Any, a: Any) -> Any:
    """cpu_gemm_wna16 with the words that vLLM's Python makes of a checkpoint."""
    t, (n, half) = side.torch, a.weight.shape
    quants = t.stack([a.weight & 15, a.weight >> 4], -1).reshape(n, 2 * half)
    blocks = quants.reshape(n // 16, 16, 2 * half).transpose(1, 2)
    words = (blocks[..., 0::2] | blocks[..., 1::2] << 4).contiguous().view(t.int32)
    words = words.reshape(n // 16, 4 * half)
    zeros = a.zero.t().contiguous()
    zeros = (zeros[:, 0::2] | zeros[:, 1::2] << 4).contiguous().view(t.int32)
    scale = a.scale.t().contiguous()
    schema = t._C._get_schema("_C::cpu_gemm_wna16", "")
    index = (None,) if any(one.name == "g_idx" for one in schema.arguments) else ()
    run = partial(side.ops.cpu_gemm_wna16, a.x, words, a.y, scale, zeros, *index, None, 8, "vec")
    return run, a.y
