# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import ml_dtypes
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# sequences, keys, query heads, key heads, width
SIZES = [(1, 256, 9, 3, 64), (1, 2048, 32, 8, 128), (8, 1024, 32, 8, 128)]
BLOCK = 16
CACHES = {"i8": np.dtype(np.int8), "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn)}


def gathered(cache: Any, a: Any) -> Any:
    """The keys or values of each sequence: [b, hkv, l, d]."""
    b, h, d = len(a.table), cache.shape[2], cache.shape[3]
    return cache[a.table].reshape(b, -1, h, d).swapaxes(1, 2)


def plain(a: Any) -> Any:
    k, v = (np.ascontiguousarray(gathered(c, a)) for c in (a.k, a.v))
    b, hq, d = a.query.shape
    q = a.query.reshape(b, k.shape[1], hq // k.shape[1], d)

    def run() -> np.ndarray:
        s = q @ k.swapaxes(-1, -2) * np.float32(d**-0.5)
        e = np.exp(s - s.max(-1, keepdims=True))
        return ((e / e.sum(-1, keepdims=True)) @ v).reshape(a.query.shape)

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    k, v = (gathered(c, a).contiguous() for c in (a.k, a.v))

    def run(q: Any, k: Any, v: Any) -> Any:
        y = t.F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)
        return y[:, :, 0]

    return t.call(run, a.query, k, v)


def cases() -> Iterator[Case]:
    for b, length, hq, hkv, d in SIZES:
        blocks = b * length // BLOCK
        table = np.random.default_rng(0).permutation(blocks).astype(np.int32).reshape(b, -1)
        for name, dtype in each_dtype():
            query = normal((b, hq, d), dtype, 0)
            k, v = (normal((blocks, BLOCK, hkv, d), dtype, i) for i in (1, 2))
            yield Case(
                f"{name} decode b {b}, {length} keys, {hq}/{hkv}x{d}",
                {
                    "query": query,
                    "k": k,
                    "v": v,
                    "table": table,
                    "lengths": np.full(b, length, np.int32),
                    "out": (np.empty_like(query), np.empty((hq, 0), np.float32)),
                },
                ours=lambda a: partial(
                    anyop.paged_attention, a.query, a.k, a.v, a.table, a.lengths, out=a.out
                ),
                numpy=plain,
                torch=of_torch,
                others={"vllm": "attended"},
                goal="decode attention" if name == "bf16" and length >= 1024 else "",
                moved=k.nbytes + v.nbytes,
                flops=4 * hq * d * length * b,
                rate=RATES[name],
                note="NumPy and torch get keys and values gathered beforehand",
            )
    yield from caches_of_bytes()


def caches_of_bytes() -> Iterator[Case]:
    """Without opponents: neither NumPy nor torch has attention over bytes."""
    for b, length, hq, hkv, d in SIZES[1:]:
        blocks = b * length // BLOCK
        table = np.random.default_rng(0).permutation(blocks).astype(np.int32).reshape(b, -1)
        scale = np.full(hkv, 1 / 32, np.float32)
        for name, dtype in CACHES.items():
            ((_, bf16),) = each_dtype("bf16")
            query = normal((b, hq, d), bf16, 0)
            k, v = (
                (normal((blocks, BLOCK, hkv, d), np.dtype(np.float32), i) * 32)
                .clip(-127, 127)
                .astype(dtype)
                for i in (1, 2)
            )
            yield Case(
                f"bf16 over {name}, decode b {b}, {length} keys, {hq}/{hkv}x{d}",
                {
                    "query": query,
                    "k": k,
                    "v": v,
                    "table": table,
                    "lengths": np.full(b, length, np.int32),
                    "scale": scale,
                    "out": (np.empty_like(query), np.empty((hq, 0), np.float32)),
                },
                ours=lambda a: partial(
                    anyop.paged_attention,
                    a.query,
                    a.k,
                    a.v,
                    a.table,
                    a.lengths,
                    k_scale=a.scale,
                    v_scale=a.scale,
                    out=a.out,
                ),
                moved=k.nbytes + v.nbytes,
                flops=4 * hq * d * length * b,
                rate=RATES["bf16"],
            )
