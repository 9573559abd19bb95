# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

# Width of a row, rows of a block, sequences, rows of each: of DeepSeek-V3.2, Llama-3-8B and Qwen3.
SIZES = [(576, 64, 4, 4096), (1024, 16, 16, 2048), (512, 16, 16, 512)]


def plain(a: Any) -> Any:
    return lambda: a.cache[a.table].reshape(a.y.shape)


def of_torch(t: TorchSide, a: Any) -> Any:
    return t.call(lambda c, b: c[b].view(-1, c.shape[-1]), a.cache, a.indices)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for w, bs, b, rows in SIZES:
            blocks = b * rows // bs
            table = np.random.default_rng(0).permutation(blocks).reshape(b, -1)
            y = np.empty((b * rows, w), dtype)
            yield Case(
                f"{name}[{w}], {b} sequences of {rows}, blocks of {bs}",
                {
                    "cache": normal((blocks, bs, w), dtype),
                    "table": table.astype(np.int32),
                    "indices": table,
                    "lens": np.full(b, rows, np.int32),
                    "y": y,
                    "count": np.empty(1, np.int64),
                },
                ours=lambda a: partial(
                    anyop.paged_cache_load,
                    a.cache,
                    a.table,
                    a.lens,
                    None,
                    len(a.y),
                    out=(a.y, a.count),
                ),
                numpy=plain,
                torch=of_torch,
                moved=2 * y.nbytes,
                tolerance=0,
                widen=False,
            )
