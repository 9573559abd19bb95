# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal

# Tokens, width, experts: of Qwen3-30B-A3B and DeepSeek-V3.2.
SIZES = [(1, 2048, 128), (16, 2048, 128), (2048, 2048, 128), (16, 7168, 256)]
TOP = 8


def choices(t: int, experts: int) -> np.ndarray:
    random = np.random.default_rng(0)
    return np.argsort(random.random((t, experts)), -1)[:, :TOP].astype(np.int32)


def permuted(t: TorchSide, x: Any, ids: Any) -> Any:
    return x[t.torch.sort(ids.flatten(), stable=True).indices // TOP]


def unpermuted(t: TorchSide, rows: Any, destination: Any, weights: Any) -> Any:
    return (rows[destination].float() * weights[..., None]).sum(1).to(rows.dtype)


def permute(name: str, dtype: np.dtype, t: int, d: int, experts: int) -> Case:
    x, ids = normal((t, d), dtype), choices(t, experts)
    return Case(
        f"permute, {name}{[t, d]} of {experts}",
        {
            "x": x,
            "ids": ids,
            "out": (
                np.empty((t * TOP, d), dtype),
                np.empty(experts + 1, np.int32),
                np.empty(t * TOP, np.int32),
                np.empty((t, TOP), np.int32),
            ),
        },
        ours=lambda a: partial(anyop.moe_permute, a.x, a.ids, experts, out=a.out),
        torch=lambda s, a: s.call(partial(permuted, s), a.x, a.ids),
        goal="experts",
        moved=2 * TOP * x.nbytes,
        tolerance=0,
    )


def unpermute(name: str, dtype: np.dtype, t: int, d: int, experts: int) -> Case:
    rows = normal((t * TOP, d), dtype)
    _, _, _, destination = anyop.moe_permute(rows[:t], choices(t, experts), experts)
    return Case(
        f"unpermute, {name}{[t, d]}",
        {
            "rows": rows,
            "destination": np.asarray(destination),
            "indices": np.asarray(destination).astype(np.int64),
            "weights": normal((t, TOP), F32, 1),
            "y": np.empty((t, d), dtype),
        },
        ours=lambda a: partial(anyop.moe_unpermute, a.rows, a.destination, a.weights, out=a.y),
        torch=lambda s, a: s.call(partial(unpermuted, s), a.rows, a.indices, a.weights),
        goal="experts",
        moved=rows.nbytes + rows.nbytes // TOP,
        flops=2 * rows.size,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for size in SIZES:
            yield permute(name, dtype, *size)
            yield unpermute(name, dtype, *size)
