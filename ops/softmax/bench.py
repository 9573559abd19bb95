# SPDX-License-Identifier: Apache-2.0
# SPDX - License - Identifier : Apache - 2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import Case

SIZES = [(9, 2048), (32, 512), (2048, 128), (16, 49152)]


def plain(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for shape in SIZES:
        x = random.standard_normal(shape, np.float32)
        y = np.empty_like(x)
        yield Case(
            f"f32{list(shape)}",
            lambda x=x, y=y: anyop.softmax(x, out=y),
            lambda x=x: plain(x),
            moved=2 * x.nbytes,
            flops=15 * x.size,
        )
