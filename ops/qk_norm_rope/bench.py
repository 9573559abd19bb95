# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 32, 4, 128), (16, 32, 4, 128), (2048, 32, 4, 128)]  # of Qwen3-30B-A3B


def of_torch(t: TorchSide, a: Any) -> Any:
    torch = t.torch
    cos, sin = (x[:, None] for x in a.table.to(a.query.dtype).chunk(2, -1))

    def turn(x: Any, weight: Any, cos: Any, sin: Any) -> Any:
        x = t.F.rms_norm(x, weight.shape, weight, 1e-6)
        p, q = x.chunk(2, -1)
        return torch.cat([p * cos - q * sin, q * cos + p * sin], -1)

    def both(query: Any, key: Any, q_weight: Any, k_weight: Any, cos: Any, sin: Any) -> None:
        query.copy_(turn(query, q_weight, cos, sin))
        key.copy_(turn(key, k_weight, cos, sin))

    return t.call(both, a.query, a.key, a.q_weight, a.k_weight, cos, sin)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for t, hq, hkv, d in SIZES:
            query, key = normal((t, hq, d), dtype), normal((t, hkv, d), dtype, 1)
            yield Case(
                f"{name} {[t, hq, d]}, {[t, hkv, d]}",
                {
                    "query": query,
                    "key": key,
                    "q_weight": normal((d,), dtype, 2),
                    "k_weight": normal((d,), dtype, 3),
                    "positions": np.arange(t),
                    "table": np.asarray(anyop.rotary_cache(max(t, 1), d)),
                },
                ours=lambda a: partial(
                    anyop.qk_norm_rope,
                    a.query,
                    a.key,
                    a.q_weight,
                    a.k_weight,
                    a.positions,
                    a.table,
                ),
                torch=of_torch,
                moved=2 * (query.nbytes + key.nbytes),
                flops=7 * (query.size + key.size),
                tolerance=3e-2,
                result=lambda a: a.query,
            )
