# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 3, 64), (16, 8, 128), (512, 3, 64), (2048, 8, 128)]
BLOCK = 16


def plain(a: Any) -> Any:
    keys, values = (c.reshape(-1, *c.shape[2:]) for c in (a.key_cache, a.value_cache))

    def store() -> None:
        keys[a.slots] = a.key
        values[a.slots] = a.value

    return store


def of_torch(t: TorchSide, a: Any) -> Any:
    def store(keys: Any, values: Any, slots: Any, key: Any, value: Any) -> None:
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)

    keys, values = (c.view(-1, *c.shape[2:]) for c in (a.key_cache, a.value_cache))
    return t.call(store, keys, values, a.slots, a.key, a.value)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for t, h, d in SIZES:
            key = normal((t, h, d), dtype, 0)
            blocks = -(-4 * t // BLOCK)
            cache = np.zeros((blocks, BLOCK, h, d), dtype)
            yield Case(
                f"{name} {[t, h, d]}",
                {
                    "key": key,
                    "value": normal((t, h, d), dtype, 1),
                    "key_cache": cache,
                    "value_cache": cache,
                    "slots": np.random.default_rng(0).permutation(blocks * BLOCK)[:t],
                },
                ours=lambda a: partial(
                    anyop.reshape_and_cache, a.key, a.value, a.key_cache, a.value_cache, a.slots
                ),
                numpy=plain,
                torch=of_torch,
                others={"vllm": "stored"},
                goal="movement",
                moved=4 * key.nbytes,
                tolerance=0,
                result=lambda a: a.value_cache,
                widen=False,
            )
