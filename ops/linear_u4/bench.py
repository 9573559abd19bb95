# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import BF16, Case, TorchSide, each_dtype, normal

GROUP = 128
SIZES = [
    (1, 4096, 4096),
    (1, 4096, 14336),
    (16, 4096, 4096),
    (512, 4096, 4096),
]


def decoded(weight: Any, scale: Any, zero: Any) -> Any:
    """The weight in f32."""
    quants = np.stack([weight & 15, weight >> 4], -1).reshape(len(weight), -1)
    parts = quants.reshape(len(weight), scale.shape[1], -1).astype(np.float32)
    return ((parts - zero[..., None]) * scale.astype(np.float32)[..., None]).reshape(quants.shape)


def packed(a: Any, how: str) -> partial[Any]:
    weight = np.asarray(anyop.pack_u4(a.weight))
    scale, zero = (np.asarray(anyop.pack_groups_u4(part)) for part in (a.scale, a.zero))
    features = len(a.weight)
    return partial(
        anyop.linear_u4_packed, a.x, weight, features, scale, zero, None, None, how, out=a.y
    )


def in_rows(a: Any, how: str) -> partial[Any]:
    return partial(anyop.linear_u4, a.x, a.weight, a.scale, a.zero, None, None, how, out=a.y)


def of_torch(t: TorchSide, a: Any) -> Any:
    """What torch does without a kernel of 4 bits: the weight is decoded, then multiplied."""

    def run(x: Any, weight: Any, scale: Any, zero: Any) -> Any:
        quants = t.torch.stack([weight & 15, weight >> 4], -1).flatten(-2)
        parts = quants.unflatten(-1, (scale.shape[1], -1)).to(x.dtype) - zero[..., None]
        return t.F.linear(x, (parts * scale[..., None]).flatten(-2).to(x.dtype))

    return t.call(run, a.x, a.weight, a.scale, a.zero)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for m, k, n in SIZES:
        weight = random.integers(0, 256, (n, k // 2), dtype=np.uint8)
        zero = random.integers(0, 16, (n, k // GROUP), dtype=np.uint8)
        for name, dtype in each_dtype("bf16"):
            x = normal((m, k), dtype, 1)
            scale = (normal((n, k // GROUP), seed=2) * 0.02).astype(dtype)
            y = np.empty((m, n), dtype)
            arrays = {"x": x, "weight": weight, "scale": scale, "zero": zero, "y": y}
            for what, ours, how in (
                ("packed", packed, "exact"),
                ("packed, int8", packed, "int8"),
                ("in rows", in_rows, "exact"),
            ):
                yield Case(
                    f"{what}, {name} [{m},{k}]x[{n},{k}]",
                    arrays,
                    ours=partial(ours, how=how),
                    numpy=lambda a: lambda: a.x @ decoded(a.weight, a.scale, a.zero).T,
                    torch=of_torch,
                    others={"vllm": "product"} if dtype == BF16 else {},
                    goal="one row of blocks" if m == 1 and ours is packed else "",
                    moved=x.nbytes + weight.nbytes + scale.nbytes + zero.nbytes + y.nbytes,
                    flops=2 * m * n * k,
                    tolerance=4e-2,
                    note="NumPy and torch decode the weight in each call",
                )
