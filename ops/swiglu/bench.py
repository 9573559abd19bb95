# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 5760), (16, 5760), (512, 5760)]
LIMIT, ALPHA, BETA = 7.0, 1.702, 1.0  # of gpt-oss
OPTIONS = (LIMIT, ALPHA, BETA, "interleaved")


def plain(x: np.ndarray) -> np.ndarray:
    gate, up = np.minimum(x[..., ::2], LIMIT), np.clip(x[..., 1::2], -LIMIT, LIMIT)
    return gate / (1 + np.exp(-ALPHA * gate)) * (up + BETA)


def of_torch(t: TorchSide, x: Any) -> Any:
    gate, up = x[..., ::2].clamp(max=LIMIT), x[..., 1::2].clamp(-LIMIT, LIMIT)
    return gate * t.torch.sigmoid(gate * ALPHA) * (up + BETA)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x, y = normal(shape, dtype), np.empty((shape[0], shape[1] // 2), dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": y},
                ours=lambda a: partial(anyop.swiglu, a.x, *OPTIONS, out=a.y),
                numpy=lambda a: partial(plain, a.x),
                torch=lambda t, a: t.call(partial(of_torch, t), a.x),
                goal="small operator",
                moved=x.nbytes + y.nbytes,
                flops=18 * y.size,
                tolerance=2e-2,
            )
    for name, dtype in each_dtype():
        x, dy = normal(SIZES[-1], dtype), normal((SIZES[-1][0], SIZES[-1][1] // 2), dtype, 1)
        yield Case(
            f"gradient, {name}{list(x.shape)}",
            {"x": x, "dy": dy, "dx": np.empty_like(x)},
            ours=lambda a: partial(anyop.swiglu_backward, a.dy, a.x, *OPTIONS, out=a.dx),
            torch=lambda t, a: t.gradient(partial(of_torch, t), (a.x,), a.dy),
            moved=2 * x.nbytes + dy.nbytes,
            flops=25 * dy.size,
            tolerance=2e-2,
        )
