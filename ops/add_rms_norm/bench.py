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


def case(name: str, shape: tuple[int, int], dtype: np.dtype, is_in_place: bool) -> Case:
    x = normal(shape, dtype, 0)
    arrays: dict[str, Any] = {
        "x": x,
        "residual": normal(shape, dtype, 1),
        "weight": normal(shape[-1:], dtype, 2),
    }
    if not is_in_place:
        arrays["out"] = (np.empty_like(x), np.empty_like(x))

    def ours(a: Any) -> partial[Any]:
        out = (a.x, a.residual) if is_in_place else a.out
        return partial(anyop.add_rms_norm, a.x, a.residual, a.weight, EPS, out=out)

    return Case(
        f"{'in place, ' if is_in_place else ''}{name}{list(shape)}",
        arrays,
        ours,
        numpy=None if is_in_place else lambda a: partial(plain, a.x, a.residual, a.weight),
        torch=None if is_in_place else of_torch,
        others={"vllm": "both"} if is_in_place else {},
        goal="small operator" if is_in_place else "",
        moved=4 * x.nbytes,
        flops=5 * x.size,
        tolerance=3e-2,
    )


def cases() -> Iterator[Case]:
    for is_in_place in (False, True):
        for name, dtype in each_dtype():
            for shape in SIZES:
                yield case(name, shape, dtype, is_in_place)
