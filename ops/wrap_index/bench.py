# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case

ROWS = 49152


def cases() -> Iterator[Case]:
    for n in (1, 512, 32768):
        index = np.random.default_rng(0).integers(-ROWS, ROWS, n)
        yield Case(
            f"[{n}] of {ROWS}",
            {"index": index, "y": np.empty_like(index)},
            ours=lambda a: partial(anyop.wrap_index, a.index, ROWS, out=a.y),
            numpy=lambda a: lambda: np.where(a.index < 0, a.index + ROWS, a.index),
            torch=lambda t, a: t.call(lambda i: t.torch.where(i < 0, i + ROWS, i), a.index),
            moved=2 * index.nbytes,
            flops=index.size,
        )
