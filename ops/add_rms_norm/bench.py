# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 576), (16, 576), (2048, 4096)]
EPS = 1e-5


def plain(x: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
    s = x + residual
    return s / np.sqrt((s * s).mean(-1, keepdims=True) + np.float32(EPS)) * weight


def of_torch(t: TorchSide, a: Any) -> Any:
    def both(x: Any, residual: Any, weight: Any) -> Any:
        s = x + residual
        return t.F.rms_norm(s, weight.shape, weight, EPS), s

    return t.call(both, a.x, a.residual, a.weight)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype, 0)
            yield Case(
                f"{name}{list(shape)}",
                {
                    "x": x,
                    "residual": normal(shape, dtype, 1),
                    "weight": normal(shape[-1:], dtype, 2),
                    "out": (np.empty_like(x), np.empty_like(x)),
                },
                ours=lambda a: partial(
                    anyop.add_rms_norm, a.x, a.residual, a.weight, EPS, out=a.out
                ),
                numpy=lambda a: partial(plain, a.x, a.residual, a.weight),
                torch=of_torch,
                moved=4 * x.nbytes,
                flops=5 * x.size,
                tolerance=3e-2,
            )
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype, 0)
            yield Case(
                f"in place, {name}{list(shape)}",
                {
                    "x": x,
                    "residual": normal(shape, dtype, 1),
                    "weight": normal(shape[-1:], dtype, 2),
                },
                ours=lambda a: partial(
                    anyop.add_rms_norm,
                    a.x,
                    a.residual,
                    a.weight,
                    EPS,
                    out=(a.x, a.residual),
                ),
                others={"vllm": "both"},
                goal="small operator",
                moved=4 * x.nbytes,
                flops=5 * x.size,
                tolerance=3e-2,
            )
