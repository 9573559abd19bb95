# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal

# Tokens, width, rank, adapters: of Llama-3-8B and SmolLM2.
SIZES = [(1, 4096, 16, 8), (16, 4096, 16, 8), (512, 4096, 64, 2), (16, 576, 8, 8)]


def loop(t: TorchSide, one: Any, x: Any, weights: Any, indices: Any, y: Any) -> Any:
    """An adapter after the other, as torch's users write it."""

    def run() -> Any:
        for adapter in range(len(weights)):
            rows = (indices == adapter).nonzero()[:, 0]
            if len(rows):
                y[rows] = one(x[rows], weights[adapter], y[rows])
        return y

    return t.call(run)


def shrink(name: str, dtype: np.dtype, t: int, d: int, r: int, n: int) -> Case:
    x, a = normal((t, d), dtype), normal((n, r, d), dtype, 1, d**-0.5)
    return Case(
        f"shrink, {name}{[t, d]}, {n} of rank {r}",
        {"x": x, "a": a, "indices": np.arange(t) % n, "y": np.zeros((t, r), F32)},
        ours=lambda s: partial(anyop.lora_shrink, s.x, s.a, s.indices, out=s.y),
        torch=lambda t, s: loop(t, lambda x, a, y: (x @ a.T).float(), s.x, s.a, s.indices, s.y),
        goal="experts",
        moved=x.nbytes + min(t, n) * a.nbytes // n,
        flops=2 * t * r * d,
    )


def expand(name: str, dtype: np.dtype, t: int, d: int, r: int, n: int) -> Case:
    x, b = normal((t, r), F32), normal((n, d, r), dtype, 1, r**-0.5)
    y = np.zeros((t, d), dtype)
    return Case(
        f"expand, {name}{[t, d]}, {n} of rank {r}",
        {"x": x, "b": b, "indices": np.arange(t) % n, "y": y},
        ours=lambda s: partial(anyop.lora_expand, s.x, s.b, s.indices, s.y, 0, False),
        torch=lambda t, s: loop(t, lambda x, b, y: x.to(b.dtype) @ b.T, s.x, s.b, s.indices, s.y),
        goal="experts",
        moved=x.nbytes + y.nbytes + min(t, n) * b.nbytes // n,
        flops=2 * t * r * d,
        tolerance=2e-2,
        result=lambda s: s.y,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for size in SIZES:
            yield shrink(name, dtype, *size)
            yield expand(name, dtype, *size)
