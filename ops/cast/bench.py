# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

F32, F16 = np.dtype(np.float32), np.dtype(np.float16)
PAIRS = [
    ("bf16 to f32", BF16, F32, (512, 576)),
    ("f32 to bf16", F32, BF16, (16, 49152)),
    ("f16 to f32", F16, F32, (4096, 4096)),
]


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for name, source, target, shape in PAIRS:
        x = random.standard_normal(shape, np.float32).astype(source)
        y = np.empty(shape, target)
        yield Case(
            f"{name} {list(shape)}",
            lambda x=x, y=y, target=target: anyop.cast(x, target, out=y),
            lambda x=x, target=target: x.astype(target),
            moved=x.nbytes + y.nbytes,
            tolerance=0,
        )
