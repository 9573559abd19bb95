# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import Case

SIZES = [(1, 576), (16, 576), (512, 576), (2048, 4096)]


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for shape in SIZES:
        x, y = (random.standard_normal(shape, np.float32) for _ in range(2))
        z, w = np.empty_like(x), np.empty_like(x)
        yield Case(
            f"f32{list(shape)}",
            lambda x=x, y=y, z=z: anyop.mul(x, y, out=z),
            lambda x=x, y=y, w=w: np.multiply(x, y, out=w),
            moved=3 * x.nbytes,
            flops=x.size,
            tolerance=0,
        )
