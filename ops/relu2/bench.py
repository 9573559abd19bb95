# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 21504), (16, 21504), (512, 21504)]


def plain(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) ** 2


def of_torch(t: TorchSide, x: Any) -> Any:
    return t.F.relu(x).square()


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a: partial(anyop.relu2, a.x, out=a.y),
                numpy=lambda a: partial(plain, a.x),
                torch=lambda t, a: t.call(partial(of_torch, t), a.x),
                goal="small operator",
                moved=2 * x.nbytes,
                flops=2 * x.size,
            )
    for name, dtype in each_dtype():
        x, dy = normal(SIZES[1], dtype), normal(SIZES[1], dtype, 1)
        yield Case(
            f"gradient, {name}{list(x.shape)}",
            {"x": x, "dy": dy, "dx": np.empty_like(x)},
            ours=lambda a: partial(anyop.relu2_backward, a.dy, a.x, out=a.dx),
            torch=lambda t, a: t.gradient(partial(of_torch, t), (a.x,), a.dy),
            moved=3 * x.nbytes,
            flops=3 * x.size,
        )
