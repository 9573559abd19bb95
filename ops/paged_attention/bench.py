# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

# sequences, keys, query heads, key heads, width
SIZES = [(1, 256, 9, 3, 64), (1, 2048, 32, 8, 128), (8, 1024, 32, 8, 128)]
BLOCK = 16


def plain(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """q [b, hkv, g, d], keys and values [b, hkv, l, d]: gathered beforehand, f32."""
    s = q @ keys.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ values


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for b, length, hq, hkv, d in SIZES:
        blocks = b * length // BLOCK
        table = random.permutation(blocks).astype(np.int32).reshape(b, -1)
        cache = random.standard_normal((2, blocks, BLOCK, hkv, d), np.float32)
        query = random.standard_normal((b, hq, d), np.float32)
        lengths = np.full(b, length, np.int32)
        keys, values = (
            np.ascontiguousarray(c[table].reshape(b, length, hkv, d).swapaxes(1, 2)) for c in cache
        )
        grouped = query.reshape(b, hkv, hq // hkv, d)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            q, (k, v) = query.astype(dtype), cache.astype(dtype)
            y, lse = np.empty_like(q), np.empty((hq, 0), np.float32)

            def ours(q=q, k=k, v=v, table=table, lengths=lengths, y=y, lse=lse):
                return anyop.paged_attention(q, k, v, table, lengths, out=(y, lse))[0]

            def numpy(grouped=grouped, keys=keys, values=values, shape=query.shape):
                return plain(grouped, keys, values).reshape(shape)

            yield Case(
                f"{name} decode b {b}, {length} keys, {hq}/{hkv}x{d}",
                ours,
                numpy,
                moved=k.nbytes + v.nbytes,
                flops=4 * hq * d * length * b,
                note="NumPy: gathered keys, f32",
            )
