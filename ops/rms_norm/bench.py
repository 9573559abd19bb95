# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case, gradient_case

SIZES = [(1, 576), (16, 576), (512, 576), (1, 4096), (2048, 4096)]
EPS = 1e-5


def plain(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x = x.astype(np.float32, copy=False)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPS)) * weight


def gradient(shape: tuple[int, int], dtype: np.dtype, name: str) -> Case:
    random = np.random.default_rng(0)
    x, dy, dx = (random.standard_normal(shape, np.float32).astype(dtype) for _ in range(3))
    weight, dweight = (random.standard_normal(shape[1], np.float32).astype(dtype) for _ in range(2))
    return gradient_case(
        f"{name}{list(shape)}",
        lambda: anyop.rms_norm_backward(dy, x, weight, EPS, 0.0, out=(dx, dweight))[0],
        lambda functional, x, weight: functional.rms_norm(x, shape[1:], weight, EPS),
        (x, weight),
        dy,
        moved=3 * x.nbytes,
        flops=13 * x.size,
    )


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for shape in SIZES:
            x = random.standard_normal(shape, np.float32).astype(dtype)
            weight = random.standard_normal(shape[-1], np.float32).astype(dtype)
            wide, y = weight.astype(np.float32), np.empty_like(x)
            yield Case(
                f"{name}{list(shape)}",
                lambda x=x, weight=weight, y=y: anyop.rms_norm(x, weight, EPS, out=y),
                lambda x=x, wide=wide: plain(x, wide),
                moved=2 * x.nbytes,
                flops=4 * x.size,
            )
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for shape in SIZES[2:]:
            yield gradient(shape, dtype, name)
