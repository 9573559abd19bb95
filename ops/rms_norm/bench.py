# SPDX-License-Identifier: Apache-2.0
# SPDX - License - Identifier : Apache - 2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 576), (16, 576), (512, 576), (1, 4096), (2048, 4096)]
EPS = 1e-5


def plain(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x = x.astype(np.float32, copy=False)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPS)) * weight


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
