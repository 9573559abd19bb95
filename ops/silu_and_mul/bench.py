# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from typing import Any

import anyop
import numpy as np
from opbench import BF16, Case, gradient_case

SIZES = [(1, 3072), (16, 3072), (512, 3072), (1, 28672), (256, 28672)]


def plain(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, axis=-1)
    return gate / (1 + np.exp(-gate)) * up


def gradient(shape: tuple[int, int], dtype: np.dtype, name: str) -> Case:
    random = np.random.default_rng(0)
    x, dx = (random.standard_normal(shape, np.float32).astype(dtype) for _ in range(2))
    dy = x[:, : shape[1] // 2].copy()

    def forward(functional: Any, x: Any) -> Any:
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up

    return gradient_case(
        f"{name}{list(shape)}",
        lambda: anyop.silu_and_mul_backward(dy, x, out=dx),
        forward,
        (x,),
        dy,
        moved=2 * x.nbytes + dy.nbytes,
        flops=20 * dy.size,
    )


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for rows, d in SIZES:
            x = random.standard_normal((rows, d), np.float32).astype(dtype)
            wide, y = x.astype(np.float32), np.empty((rows, d // 2), dtype)
            yield Case(
                f"{name}{[rows, d]}",
                lambda x=x, y=y: anyop.silu_and_mul(x, out=y),
                lambda wide=wide: plain(wide),
                moved=x.nbytes + y.nbytes,
                flops=15 * y.size,
            )
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for shape in SIZES[2:]:
            yield gradient(shape, dtype, name)
