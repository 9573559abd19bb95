# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import Case, gradient_case

SIZES = [(9, 2048), (32, 512), (2048, 128), (16, 49152)]


def plain(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gradient(shape: tuple[int, int]) -> Case:
    random = np.random.default_rng(0)
    x, dy, dx = (random.standard_normal(shape, np.float32) for _ in range(3))
    y = np.asarray(anyop.softmax(x))
    return gradient_case(
        f"f32{list(shape)}",
        lambda: anyop.softmax_backward(dy, y, 1.0, out=dx),
        lambda functional, x: functional.softmax(x, -1),
        (x,),
        dy,
        moved=3 * x.nbytes,
        flops=5 * x.size,
    )


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for shape in SIZES:
        x = random.standard_normal(shape, np.float32)
        y = np.empty_like(x)
        yield Case(
            f"f32{list(shape)}",
            lambda x=x, y=y: anyop.softmax(x, out=y),
            lambda x=x: plain(x),
            moved=2 * x.nbytes,
            flops=15 * x.size,
        )
    for shape in SIZES:
        yield gradient(shape)
