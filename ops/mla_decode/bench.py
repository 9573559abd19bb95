# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# sequences, keys, heads, latent, rotated
SIZES = [(1, 2048, 16, 512, 64), (1, 2048, 128, 512, 64), (16, 2048, 16, 512, 64)]
BLOCK = 64
SCALE = 192**-0.5


def gathered(cache: Any, table: Any) -> Any:
    """The latents of each sequence: [b, l, c]."""
    return cache[table].reshape(len(table), -1, cache.shape[-1])


def plain(a: Any) -> Any:
    latents, rope = (np.ascontiguousarray(gathered(x, a.table)) for x in (a.kv, a.rope))

    def run() -> np.ndarray:
        s = a.q_nope @ latents.swapaxes(-1, -2) + a.q_rope @ rope.swapaxes(-1, -2)
        s = s * np.float32(SCALE)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ latents

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    latents, rope = gathered(a.kv, a.table).contiguous(), gathered(a.rope, a.table)
    keys = t.torch.cat([latents, rope], -1)[:, None]

    def run(q: Any, p: Any, k: Any, v: Any) -> Any:
        query = t.torch.cat([q, p], -1)[:, :, None]
        y = t.F.scaled_dot_product_attention(query, k, v, scale=SCALE, enable_gqa=True)
        return y[:, :, 0]

    return t.call(run, a.q_nope, a.q_rope, keys, latents[:, None])


def cases() -> Iterator[Case]:
    for b, length, h, c, r in SIZES:
        blocks = b * length // BLOCK
        table = np.random.default_rng(0).permutation(blocks).astype(np.int32).reshape(b, -1)
        for name, dtype in each_dtype():
            q_nope, q_rope = normal((b, h, c), dtype, 0), normal((b, h, r), dtype, 1)
            kv, rope = normal((blocks, BLOCK, c), dtype, 2), normal((blocks, BLOCK, r), dtype, 3)
            yield Case(
                f"{name} b {b}, {length} keys, {h} heads, {c}+{r}",
                {
                    "q_nope": q_nope,
                    "q_rope": q_rope,
                    "kv": kv,
                    "rope": rope,
                    "table": table,
                    "lengths": np.full(b, length, np.int32),
                    "scale": SCALE,
                    "out": (np.empty_like(q_nope), np.empty((h, 0), np.float32)),
                },
                ours=lambda a: partial(
                    anyop.mla_decode,
                    a.q_nope,
                    a.q_rope,
                    a.kv,
                    a.rope,
                    a.table,
                    a.lengths,
                    None,
                    SCALE,
                    out=a.out,
                ),
                numpy=plain,
                torch=of_torch,
                others={"vllm": "decoded"},
                moved=kv.nbytes + rope.nbytes,
                flops=2 * h * (2 * c + r) * length * b,
                rate=RATES[name],
                note="NumPy and torch get latents gathered beforehand",
            )
