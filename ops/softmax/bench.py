# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

SIZES = [(9, 2048), (32, 512), (2048, 128), (16, 49152)]


def plain(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gradient(shape: tuple[int, int]) -> Case:
    x = normal(shape)
    return Case(
        f"gradient, f32{list(shape)}",
        {"x": x, "dy": normal(shape, seed=1), "dx": np.empty_like(x)},
        ours=lambda a: partial(
            anyop.softmax_backward, a.dy, np.asarray(anyop.softmax(a.x)), 1.0, out=a.dx
        ),
        torch=lambda t, a: t.gradient(lambda x: t.F.softmax(x, -1), (a.x,), a.dy),
        moved=3 * x.nbytes,
        flops=5 * x.size,
    )


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a: partial(anyop.softmax, a.x, out=a.y),
                numpy=lambda a: partial(plain, a.x),
                torch=lambda t, a: t.call(lambda v: t.F.softmax(v, -1), a.x),
                goal="small operator",
                moved=2 * x.nbytes,
                flops=15 * x.size,
            )
    for shape in SIZES:
        yield gradient(shape)
