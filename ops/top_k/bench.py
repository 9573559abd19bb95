# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(16, 49152, 50), (1, 131072, 2048), (2048, 128, 8), (16, 256, 8)]


def plain(x: np.ndarray, k: int) -> np.ndarray:
    """The values only, as comparing needs."""
    best = np.argpartition(-x, k, axis=-1)[:, :k]
    return -np.sort(-np.take_along_axis(x, best, -1), -1)


def of_torch(t: TorchSide, a: Any, k: int) -> Any:
    return t.call(lambda x: t.torch.topk(x, k, -1)[0], a.x)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for rows, d, k in SIZES:
            x = normal((rows, d), dtype)
            yield Case(
                f"{name}{[rows, d]} k {k}",
                {"x": x, "out": (np.empty((rows, k), dtype), np.empty((rows, k), np.int64))},
                ours=lambda a, k=k: partial(anyop.top_k, a.x, k, out=a.out),
                numpy=lambda a, k=k: partial(plain, a.x, k),
                torch=partial(of_torch, k=k),
                goal="small operator",
                moved=x.nbytes,
                flops=4 * x.size,
                tolerance=0,
            )
