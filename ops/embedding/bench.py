# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case, gradient_case

ROWS = [1, 16, 512]


def gradient(rows: int, table: np.ndarray, name: str) -> Case:
    random = np.random.default_rng(0)
    ids = random.integers(0, len(table), rows)
    dy = random.standard_normal((rows, table.shape[1]), np.float32).astype(table.dtype)
    dweight = np.empty_like(table)
    return gradient_case(
        f"{name} [{rows}] of {list(table.shape)}",
        lambda: anyop.embedding_backward(dy, ids, table, -1, out=dweight),
        lambda functional, ids, weight: functional.embedding(ids, weight),
        (ids, table),
        dy,
        moved=table.nbytes + dy.nbytes,
        flops=dy.size,
    )


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    weight = random.standard_normal((49152, 576), np.float32)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        table = weight.astype(dtype)
        for rows in ROWS:
            ids = random.integers(0, len(table), rows)
            y, z = np.empty((rows, 576), dtype), np.empty((rows, 576), dtype)
            yield Case(
                f"{name} [{rows}] of [49152,576]",
                lambda ids=ids, table=table, y=y: anyop.embedding(ids, table, out=y),
                lambda ids=ids, table=table, z=z: np.take(table, ids, axis=0, out=z, mode="clip"),
                moved=2 * y.nbytes,
                tolerance=0,
            )
        yield gradient(2048, table, name)
