# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

SIZES = [(1, 576), (16, 576), (512, 576), (1, 4096), (2048, 4096)]
EPS = 1e-5


def plain(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPS)) * weight


def gradient(shape: tuple[int, int], dtype: np.dtype, name: str) -> Case:
    x, weight = normal(shape, dtype, 0), normal(shape[1:], dtype, 1)
    return Case(
        f"gradient, {name}{list(shape)}",
        {
            "x": x,
            "weight": weight,
            "dy": normal(shape, dtype, 2),
            "out": (np.empty_like(x), np.empty_like(weight)),
        },
        ours=lambda a: partial(anyop.rms_norm_backward, a.dy, a.x, a.weight, EPS, 0.0, out=a.out),
        torch=lambda t, a: t.gradient(
            lambda x, w: t.F.rms_norm(x, shape[1:], w, EPS), (a.x, a.weight), a.dy
        ),
        moved=3 * x.nbytes,
        flops=13 * x.size,
        tolerance=2e-2,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "weight": normal(shape[1:], dtype, 1), "y": np.empty_like(x)},
                ours=lambda a: partial(anyop.rms_norm, a.x, a.weight, EPS, out=a.y),
                numpy=lambda a: partial(plain, a.x, a.weight),
                torch=lambda t, a: t.call(
                    lambda v, w: t.F.rms_norm(v, w.shape, w, EPS), a.x, a.weight
                ),
                others={"vllm": "norm"},
                goal="small operator",
                moved=2 * x.nbytes,
                flops=4 * x.size,
            )
    for name, dtype in each_dtype():
        for shape in SIZES[2:]:
            yield gradient(shape, dtype, name)
