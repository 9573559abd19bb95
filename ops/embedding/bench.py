# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

ROWS = [1, 16, 512]
TABLE = (49152, 576)


def gradient(rows: int, table: np.ndarray, name: str) -> Case:
    dy = normal((rows, table.shape[1]), table.dtype, 1)
    return Case(
        f"gradient, {name} [{rows}] of {list(table.shape)}",
        {
            "ids": np.random.default_rng(0).integers(0, len(table), rows),
            "weight": table,
            "dy": dy,
            "dweight": np.empty_like(table),
        },
        ours=lambda a: partial(anyop.embedding_backward, a.dy, a.ids, a.weight, -1, out=a.dweight),
        torch=lambda t, a: t.gradient(t.F.embedding, (a.ids, a.weight), a.dy),
        moved=table.nbytes + dy.nbytes,
        flops=dy.size,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        table = normal(TABLE, dtype)
        for rows in ROWS:
            y = np.empty((rows, TABLE[1]), dtype)
            yield Case(
                f"{name} [{rows}] of {list(TABLE)}",
                {
                    "ids": np.random.default_rng(0).integers(0, TABLE[0], rows),
                    "table": table,
                    "y": y,
                },
                ours=lambda a: partial(anyop.embedding, a.ids, a.table, out=a.y),
                numpy=lambda a: partial(np.take, a.table, a.ids, axis=0, out=a.y, mode="clip"),
                torch=lambda t, a: t.call(t.F.embedding, a.ids, a.table),
                moved=2 * y.nbytes,
                tolerance=0,
                widen=False,
            )
        yield gradient(2048, table, name)
