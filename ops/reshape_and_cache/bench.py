# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 3, 64), (16, 8, 128), (512, 3, 64), (2048, 8, 128)]
BLOCK = 16


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for t, h, d in SIZES:
            key, value = (random.standard_normal((t, h, d), np.float32).astype(dtype) for _ in "kv")
            blocks = -(-4 * t // BLOCK)
            cache = np.zeros((4, blocks, BLOCK, h, d), dtype)
            slots = random.permutation(blocks * BLOCK)[:t]
            flat = cache.reshape(4, blocks * BLOCK, h, d)

            def ours(key=key, value=value, cache=cache, slots=slots):
                anyop.reshape_and_cache(key, value, cache[0], cache[1], slots)
                return cache[0]

            def plain(key=key, value=value, cache=cache, flat=flat, slots=slots):
                flat[2][slots] = key
                flat[3][slots] = value
                return cache[2]

            yield Case(f"{name} {[t, h, d]}", ours, plain, moved=4 * key.nbytes, tolerance=0)
