# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 28, 4, 128), (16, 28, 4, 128), (2048, 28, 4, 128)]
SECTIONS = [16, 24, 24]  # of Qwen2-VL


def of_torch(t: TorchSide, a: Any) -> Any:
    """As transformers has it: cosines and sines of full width, merged per axis."""
    torch = t.torch
    cos, sin = (torch.cat([x, x], -1) for x in a.table.to(a.query.dtype).chunk(2, -1))

    def rotate(query: Any, key: Any, positions: Any, cos: Any, sin: Any) -> None:
        def merge(table: Any) -> Any:
            parts = table[positions].split(SECTIONS * 2, -1)
            return torch.cat([part[i % 3] for i, part in enumerate(parts)], -1)[:, None]

        c, s = merge(cos), merge(sin)

        def turn(x: Any) -> Any:
            p, q = x.chunk(2, -1)
            return x * c + torch.cat([-q, p], -1) * s

        query.copy_(turn(query))
        key.copy_(turn(key))

    return t.call(rotate, a.query, a.key, a.positions, cos, sin)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for t, hq, hkv, d in SIZES:
            query, key = normal((t, hq, d), dtype), normal((t, hkv, d), dtype, 1)
            yield Case(
                f"{name} {[t, hq, d]}, {[t, hkv, d]}",
                {
                    "query": query,
                    "key": key,
                    "positions": np.stack([np.arange(t)] * 3),
                    "table": np.asarray(anyop.rotary_cache(max(t, 1), d)),
                },
                ours=lambda a: partial(anyop.mrope, a.positions, a.query, a.key, a.table, SECTIONS),
                torch=of_torch,
                moved=2 * (query.nbytes + key.nbytes),
                flops=3 * (query.size + key.size),
                tolerance=2e-2,
                result=lambda a: a.query,
            )
