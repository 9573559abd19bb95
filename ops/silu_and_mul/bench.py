# SPDX-License-Identifier: Apache-2.0
# SPDX - License - Identifier : Apache - 2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 3072), (16, 3072), (512, 3072), (1, 28672), (256, 28672)]


def plain(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, axis=-1)
    return gate / (1 + np.exp(-gate)) * up


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for rows, d in SIZES:
            x = random.standard_normal((rows, d), np.float32).astype(dtype)
            wide, y = x.astype(np.float32), np.empty((rows, d // 2), dtype)
            yield Case(
                f"{name}{[rows, d]}",
                lambda x=x, y=y: anyop.silu_and_mul(x, out=y),
                lambda wide=wide: plain(wide),
                moved=x.nbytes + y.nbytes,
                flops=15 * y.size,
            )
