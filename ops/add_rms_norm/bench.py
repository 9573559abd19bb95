# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 576), (16, 576), (2048, 4096)]
EPS = 1e-5


def plain(x: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
    s = x + residual
    return s / np.sqrt((s * s).mean(-1, keepdims=True) + np.float32(EPS)) * weight


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for shape in SIZES:
            x, residual = (random.standard_normal(shape, np.float32).astype(dtype) for _ in "ab")
            weight = random.standard_normal(shape[-1], np.float32).astype(dtype)
            out = np.empty_like(x), np.empty_like(x)
            wide = [a.astype(np.float32) for a in (x, residual, weight)]

            def ours(x=x, residual=residual, weight=weight, out=out):
                return anyop.add_rms_norm(x, residual, weight, EPS, out=out)[0]

            yield Case(
                f"{name}{list(shape)}",
                ours,
                lambda wide=wide: plain(*wide),
                moved=4 * x.nbytes,
                flops=5 * x.size,
                tolerance=3e-2,
            )
