# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

# blocks, elements of a block, copied blocks, caches
SIZES = [(64, 16 * 3 * 64, 8, 4), (256, 16 * 8 * 128, 64, 2)]


def plain(a: Any) -> Any:
    def copy() -> None:
        for cache in a.caches:
            cache[a.mapping[:, 1]] = cache[a.mapping[:, 0]]

    return copy


def of_torch(t: TorchSide, a: Any) -> Any:
    def copy(mapping: Any, *caches: Any) -> None:
        for cache in caches:
            cache.index_copy_(0, mapping[:, 1], cache.index_select(0, mapping[:, 0]))

    return t.call(copy, a.mapping, *a.caches)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for blocks, w, n, caches in SIZES:
            order = np.random.default_rng(0).permutation(blocks)[: 2 * n]
            yield Case(
                f"{name} {n} of {[blocks, w]}, {caches} caches",
                {
                    "caches": [normal((blocks, w), dtype, i) for i in range(caches)],
                    "mapping": order.reshape(n, 2).astype(np.int64),
                },
                ours=lambda a: partial(anyop.copy_blocks, a.caches, a.mapping),
                numpy=plain,
                torch=of_torch,
                goal="movement",
                moved=2 * caches * n * w * dtype.itemsize,
                tolerance=0,
                result=lambda a: a.caches[-1],
                widen=False,
            )
