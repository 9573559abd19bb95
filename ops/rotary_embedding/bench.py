# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 9, 3, 64), (512, 9, 3, 64), (1, 32, 8, 128), (2048, 32, 8, 128)]


def plain(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for t, hq, hkv, d in SIZES:
            x = random.standard_normal((t, hq + hkv, d), np.float32).astype(dtype)
            wide, y = x.astype(np.float32), np.empty_like(x)
            positions = np.arange(t)
            table = anyop.rotary_cache(max(t, 1), d)
            cos, sin = np.split(table[positions][:, None], 2, axis=-1)
            yield Case(
                f"{name} {[t, hq + hkv, d]}",
                lambda x=x, p=positions, table=table, y=y: anyop.rope(x, p, table, out=y),
                lambda wide=wide, cos=cos, sin=sin: plain(wide, cos, sin),
                moved=2 * x.nbytes,
                flops=3 * x.size,
            )
