# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [("tanh", (16, 3072)), ("none", (512, 3072)), ("tanh", (512, 16384))]


def plain(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))


def of_torch(t: TorchSide, kind: str, x: Any) -> Any:
    return t.F.gelu(x, approximate=kind)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for kind, shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{kind}, {name}{list(shape)}",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a, kind=kind: partial(anyop.gelu, a.x, kind, out=a.y),
                numpy=(lambda a: partial(plain, a.x)) if kind == "tanh" else None,
                torch=lambda t, a, kind=kind: t.call(partial(of_torch, t, kind), a.x),
                moved=2 * x.nbytes,
                flops=20 * x.size,
            )
    for name, dtype in each_dtype():
        x, dy = normal((512, 3072), dtype), normal((512, 3072), dtype, 1)
        yield Case(
            f"gradient, {name}{list(x.shape)}",
            {"x": x, "dy": dy, "dx": np.empty_like(x)},
            ours=lambda a: partial(anyop.gelu_backward, a.dy, a.x, "none", out=a.dx),
            torch=lambda t, a: t.gradient(partial(of_torch, t, "none"), (a.x,), a.dy),
            moved=3 * x.nbytes,
            flops=30 * x.size,
        )
