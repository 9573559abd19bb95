# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

# queries and keys, query heads, key heads, width
SIZES = [(512, 9, 3, 64), (1024, 32, 8, 128)]


def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """All [h, t, d], f32, causal."""
    t = q.shape[1]
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    s += np.triu(np.full((t, t), -np.inf, np.float32), 1)
    e = np.exp(s - s.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).swapaxes(0, 1)


def plain_backward(
    dy: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, y: np.ndarray, lse: np.ndarray
) -> np.ndarray:
    """dquery; all [h, t, d] but lse [h, t], f32, causal."""
    scale = np.float32(q.shape[-1] ** -0.5)
    s = q @ k.swapaxes(-1, -2) * scale
    p = np.tril(np.exp(s - lse[..., None]))
    ds = p * (dy @ v.swapaxes(-1, -2) - (dy * y).sum(-1, keepdims=True)) * scale
    p.swapaxes(-1, -2) @ dy
    ds.swapaxes(-1, -2) @ q
    return (ds @ k).swapaxes(0, 1)


def backward_cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for t, hq, hkv, d in SIZES:
        wide = [random.standard_normal((t, h, d), np.float32) for h in (hq, hq, hkv, hkv)]
        starts = np.array([0, t], np.int32)
        y, lse = anyop.attention(*wide[1:], starts, starts, return_lse=True)
        heads = [
            np.repeat(a, hq // a.shape[1], 1).swapaxes(0, 1).copy() for a in (*wide, np.array(y))
        ]
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            dy, q, k, v = (a.astype(dtype) for a in wide)
            result = np.array(y).astype(dtype)
            out = (np.empty_like(q), np.empty_like(k), np.empty_like(v), np.empty(hq, np.float32))
            options = (None, True, -1, -1, 0.0, None, None)

            def ours(a=(dy, q, k, v, result), starts=starts, lse=lse, options=options, out=out):
                return anyop.attention_backward(*a, lse, starts, starts, *options, out=out)[0]

            yield Case(
                f"{name} causal backward {t}x{t}, {hq}/{hkv}x{d}",
                ours,
                lambda heads=heads, lse=lse: plain_backward(*heads, lse),
                moved=4 * q.nbytes + 4 * k.nbytes,
                flops=5 * hq * d * t * t,
                tolerance=2e-2,
                note="NumPy: whole matrix, f32",
            )


def cases() -> Iterator[Case]:
    yield from backward_cases()
    random = np.random.default_rng(0)
    for t, hq, hkv, d in SIZES:
        wide = [random.standard_normal((t, h, d), np.float32) for h in (hq, hkv, hkv)]
        heads = [np.repeat(a, hq // a.shape[1], 1).swapaxes(0, 1).copy() for a in wide]
        starts = np.array([0, t], np.int32)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            q, k, v = (a.astype(dtype) for a in wide)
            y, lse = np.empty_like(q), np.empty((hq, 0), np.float32)

            def ours(q=q, k=k, v=v, starts=starts, y=y, lse=lse):
                return anyop.attention(q, k, v, starts, starts, out=(y, lse))[0]

            yield Case(
                f"{name} causal {t}x{t}, {hq}/{hkv}x{d}",
                ours,
                lambda heads=heads: plain(*heads),
                moved=2 * q.nbytes + k.nbytes + v.nbytes,
                flops=2 * hq * d * t * t,
                note="NumPy: whole matrix, f32",
            )
