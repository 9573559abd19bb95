# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 768), (16, 128), (1024, 1280)]
EPS = 1e-5


def plain(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    z = x - x.mean(-1, keepdims=True)
    return z / np.sqrt((z * z).mean(-1, keepdims=True) + np.float32(EPS)) * weight + bias


def of_torch(t: TorchSide, x: Any, weight: Any, bias: Any) -> Any:
    return t.F.layer_norm(x, weight.shape, weight, bias, EPS)


def gradient(shape: tuple[int, int], dtype: np.dtype, name: str) -> Case:
    x, row = normal(shape, dtype), normal(shape[1:], dtype, 1)
    return Case(
        f"gradient, {name}{list(shape)}",
        {
            "x": x,
            "weight": row,
            "bias": normal(shape[1:], dtype, 2),
            "dy": normal(shape, dtype, 3),
            "out": (np.empty_like(x), np.empty_like(row), np.empty_like(row)),
        },
        ours=lambda a: partial(anyop.layer_norm_backward, a.dy, a.x, a.weight, EPS, out=a.out),
        torch=lambda t, a: t.gradient(partial(of_torch, t), (a.x, a.weight, a.bias), a.dy),
        moved=3 * x.nbytes,
        flops=20 * x.size,
        tolerance=2e-2,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {
                    "x": x,
                    "weight": normal(shape[1:], dtype, 1),
                    "bias": normal(shape[1:], dtype, 2),
                    "y": np.empty_like(x),
                },
                ours=lambda a: partial(anyop.layer_norm, a.x, a.weight, a.bias, EPS, out=a.y),
                numpy=lambda a: partial(plain, a.x, a.weight, a.bias),
                torch=lambda t, a: t.call(partial(of_torch, t), a.x, a.weight, a.bias),
                moved=2 * x.nbytes,
                flops=8 * x.size,
            )
    for name, dtype in each_dtype():
        yield gradient(SIZES[2], dtype, name)
