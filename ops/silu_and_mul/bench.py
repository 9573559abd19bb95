# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 3072), (16, 3072), (512, 3072), (1, 28672), (256, 28672)]


def plain(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, axis=-1)
    return gate / (1 + np.exp(-gate)) * up


def of_torch(t: TorchSide, x: Any) -> Any:
    gate, up = x.chunk(2, -1)
    return t.F.silu(gate) * up


def gradient(shape: tuple[int, int], dtype: np.dtype, name: str) -> Case:
    x, dy = normal(shape, dtype), normal((shape[0], shape[1] // 2), dtype, 1)
    return Case(
        f"gradient, {name}{list(shape)}",
        {"x": x, "dy": dy, "dx": np.empty_like(x)},
        ours=lambda a: partial(anyop.silu_and_mul_backward, a.dy, a.x, out=a.dx),
        torch=lambda t, a: t.gradient(partial(of_torch, t), (a.x,), a.dy),
        moved=2 * x.nbytes + dy.nbytes,
        flops=20 * dy.size,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for rows, d in SIZES:
            x, y = normal((rows, d), dtype), np.empty((rows, d // 2), dtype)
            yield Case(
                f"{name}{[rows, d]}",
                {"x": x, "y": y},
                ours=lambda a: partial(anyop.silu_and_mul, a.x, out=a.y),
                numpy=lambda a: partial(plain, a.x),
                torch=lambda t, a: t.call(partial(of_torch, t), a.x),
                others={"vllm": "product"},
                goal="small operator",
                moved=x.nbytes + y.nbytes,
                flops=15 * y.size,
            )
    for name, dtype in each_dtype():
        for shape in SIZES[2:]:
            yield gradient(shape, dtype, name)
