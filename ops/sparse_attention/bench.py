# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# tokens, keys in the cache, indices of each token, heads, latent, rotated
SIZES = [
    (1, 16384, 2048, 16, 512, 64),
    (1, 16384, 2048, 128, 512, 64),
    (4, 16384, 2048, 16, 512, 64),
]
BLOCK = 64
SCALE = 192**-0.5


def plain(a: Any) -> Any:
    def run() -> np.ndarray:
        latents = a.kv.reshape(-1, a.kv.shape[-1])[a.slots]
        rope = a.rope.reshape(-1, a.rope.shape[-1])[a.slots]
        s = a.q_nope @ latents.swapaxes(-1, -2) + a.q_rope @ rope.swapaxes(-1, -2)
        s = s * np.float32(SCALE)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ latents

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    def run(q: Any, p: Any, kv: Any, rope: Any, slots: Any) -> Any:
        latents = kv.flatten(0, 1)[slots]
        keys = t.torch.cat([latents, rope.flatten(0, 1)[slots]], -1)[:, None]
        query = t.torch.cat([q, p], -1)[:, :, None]
        y = t.F.scaled_dot_product_attention(
            query, keys, latents[:, None], scale=SCALE, enable_gqa=True
        )
        return y[:, :, 0]

    return t.call(run, a.q_nope, a.q_rope, a.kv, a.rope, a.slots)


def cases() -> Iterator[Case]:
    for tokens, length, n, h, c, r in SIZES:
        random = np.random.default_rng(0)
        slots = np.stack([np.sort(random.choice(length, n, False)) for _ in range(tokens)])
        for name, dtype in each_dtype():
            q_nope, q_rope = normal((tokens, h, c), dtype, 0), normal((tokens, h, r), dtype, 1)
            kv = normal((length // BLOCK, BLOCK, c), dtype, 2)
            rope = normal((length // BLOCK, BLOCK, r), dtype, 3)
            yield Case(
                f"{name} {tokens} tokens, {n} of {length} keys, {h} heads, {c}+{r}",
                {
                    "q_nope": q_nope,
                    "q_rope": q_rope,
                    "kv": kv,
                    "rope": rope,
                    "slots": slots,
                    "out": (np.empty_like(q_nope), np.empty((h, 0), np.float32)),
                },
                ours=lambda a: partial(
                    anyop.sparse_attention,
                    a.q_nope,
                    a.q_rope,
                    a.kv,
                    a.rope,
                    a.slots,
                    scale=SCALE,
                    index="physical",
                    out=a.out,
                ),
                numpy=plain,
                torch=of_torch,
                moved=tokens * n * (c + r) * kv.itemsize,
                flops=2 * h * (2 * c + r) * n * tokens,
                rate=RATES[name],
            )
