# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 9, 3, 64), (512, 9, 3, 64), (1, 32, 8, 128), (2048, 32, 8, 128)]


def plain(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    p, q = np.split(x, 2, axis=-1)
    return np.concatenate([p * cos - q * sin, q * cos + p * sin], -1)


def of_torch(t: TorchSide, a: Any) -> Any:
    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        p, q = x.chunk(2, -1)
        return t.torch.cat([p * cos - q * sin, q * cos + p * sin], -1)

    return t.call(rotate, a.x, a.cos.to(a.x.dtype), a.sin.to(a.x.dtype))


def in_place(name: str, dtype: np.dtype, t: int, hq: int, hkv: int, d: int) -> Case:
    """Queries and keys of a step, rotated where they are."""
    query, key = normal((t, hq, d), dtype), normal((t, hkv, d), dtype, 1)
    return Case(
        f"in place, {name} {[t, hq, d]}, {[t, hkv, d]}",
        {
            "query": query,
            "key": key,
            "positions": np.arange(t),
            "table": np.asarray(anyop.rotary_cache(max(t, 1), d)),
        },
        ours=lambda a: partial(anyop.rotary_embedding, a.positions, a.query, a.key, a.table),
        others={"vllm": "rotated"},
        goal="small operator",
        moved=2 * (query.nbytes + key.nbytes),
        flops=3 * (query.size + key.size),
        tolerance=2e-2,
        result=lambda a: a.query,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for size in SIZES:
            yield in_place(name, dtype, *size)
    for name, dtype in each_dtype():
        for t, hq, hkv, d in SIZES:
            x = normal((t, hq + hkv, d), dtype)
            table = np.asarray(anyop.rotary_cache(max(t, 1), d))
            cos, sin = np.split(table[:t, None], 2, axis=-1)
            yield Case(
                f"{name} {[t, hq + hkv, d]}",
                {
                    "x": x,
                    "positions": np.arange(t),
                    "table": table,
                    "cos": np.ascontiguousarray(cos),
                    "sin": np.ascontiguousarray(sin),
                    "y": np.empty_like(x),
                },
                ours=lambda a: partial(anyop.rope, a.x, a.positions, a.table, out=a.y),
                numpy=lambda a: partial(plain, a.x, a.cos, a.sin),
                torch=of_torch,
                moved=2 * x.nbytes,
                flops=3 * x.size,
                tolerance=2e-2,
            )
