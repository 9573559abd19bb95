# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import Case

SIZES = [(16, 4096), (2048, 256)]


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for shape in SIZES:
        x = random.standard_normal(shape, np.float32)
        y = np.empty_like(x)
        yield Case(
            f"f32{list(shape)}",
            lambda x=x, y=y: anyop.sigmoid(x, out=y),
            lambda x=x: 1 / (1 + np.exp(-x)),
            moved=2 * x.nbytes,
            flops=12 * x.size,
        )
