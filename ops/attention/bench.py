# SPDX-License-Identifier: Apache-2.0
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# queries and keys, query heads, key heads, width
SIZES = [(512, 9, 3, 64), (1024, 32, 8, 128)]
# of prompts of 2 heads, causal and not, beside torch
PROMPTS, WIDTHS = (512, 1024, 2048), (64, 128)


def heads_first(x: np.ndarray, n: int) -> np.ndarray:
    """[t, h, d] as [n, t, d], key heads repeated."""
    return np.repeat(x, n // x.shape[1], 1).swapaxes(0, 1).copy()


def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """All [h, t, d], f32, causal: the whole matrix."""
    t = q.shape[1]
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    s += np.triu(np.full((t, t), -np.inf, np.float32), 1)
    e = np.exp(s - s.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).swapaxes(0, 1)


def attended(t: TorchSide, is_causal: bool, q: Any, k: Any, v: Any) -> Any:
    """[t, h, d] in and out."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    y = t.F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
    return y[0].transpose(0, 1)


def gradient(a: Any) -> partial[Any]:
    y, lse = anyop.attention(a.q, a.k, a.v, a.starts, a.starts, return_lse=True)
    options = (None, True, -1, -1, 0.0, None, None)
    return partial(
        anyop.attention_backward, a.dy, a.q, a.k, a.v, np.asarray(y), np.asarray(lse), a.starts,
        a.starts, *options, out=a.out,
    )  # fmt: skip


def numpy_of(a: Any) -> partial[Any]:
    n = a.q.shape[1]
    return partial(plain, *(heads_first(x, n) for x in (a.q, a.k, a.v)))


def cases() -> Iterator[Case]:
    for t, hq, hkv, d in SIZES:
        for name, dtype in each_dtype():
            q = normal((t, hq, d), dtype, 0)
            k, v = normal((t, hkv, d), dtype, 1), normal((t, hkv, d), dtype, 2)
            arrays = {"q": q, "k": k, "v": v, "starts": np.array([0, t], np.int32)}
            sizes = f"{name} causal {t}x{t}, {hq}/{hkv}x{d}"
            yield Case(
                sizes,
                {**arrays, "out": (np.empty_like(q), np.empty((hq, 0), np.float32))},
                ours=lambda a: partial(
                    anyop.attention, a.q, a.k, a.v, a.starts, a.starts, out=a.out
                ),
                numpy=numpy_of,
                torch=lambda t, a: t.call(partial(attended, t, True), a.q, a.k, a.v),
                moved=2 * q.nbytes + k.nbytes + v.nbytes,
                flops=2 * hq * d * t * t,
                rate=RATES[name],
                note="NumPy computes the whole matrix",
            )
            yield Case(
                f"gradient, {sizes}",
                {
                    **arrays,
                    "dy": normal((t, hq, d), dtype, 3),
                    "out": (np.empty_like(q), np.empty_like(k), np.empty_like(v),
                            np.empty(hq, np.float32)),
                },
                ours=gradient,
                torch=lambda t, a: t.gradient(partial(attended, t, True), (a.q, a.k, a.v), a.dy),
                moved=4 * q.nbytes + 4 * k.nbytes,
                flops=5 * hq * d * t * t,
                rate=RATES[name],
                tolerance=2e-2,
            )  # fmt: skip
    yield from prompts()


def prompts() -> Iterator[Case]:
    h = 2
    for t, d, is_causal in itertools.product(PROMPTS, WIDTHS, (True, False)):
        for name, dtype in each_dtype():
            q, k, v = (normal((t, h, d), dtype, i) for i in range(3))
            starts = np.array([0, t], np.int32)
            yield Case(
                f"{name} {'causal' if is_causal else 'full'} {t}x{t}, {h}/{h}x{d}",
                {"q": q, "k": k, "v": v, "starts": starts,
                 "out": (np.empty_like(q), np.empty((h, 0), np.float32))},
                ours=lambda a, c=is_causal: partial(
                    anyop.attention, a.q, a.k, a.v, a.starts, a.starts, causal=c, out=a.out
                ),
                torch=lambda t, a, c=is_causal: t.call(partial(attended, t, c), a.q, a.k, a.v),
                moved=4 * q.nbytes,
                flops=(2 if is_causal else 4) * h * d * t * t,
                rate=RATES[name],
            )  # fmt: skip
