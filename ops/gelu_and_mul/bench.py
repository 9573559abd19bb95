# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 32768), (16, 32768), (512, 32768)]


def plain(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, axis=-1)
    return 0.5 * gate * (1 + np.tanh(0.79788456 * (gate + 0.044715 * gate**3))) * up


def of_torch(t: TorchSide, kind: str, x: Any) -> Any:
    gate, up = x.chunk(2, -1)
    return t.F.gelu(gate, approximate=kind) * up


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for kind, shape in [*(("tanh", s) for s in SIZES), ("none", SIZES[1])]:
            x, y = normal(shape, dtype), np.empty((shape[0], shape[1] // 2), dtype)
            yield Case(
                f"{kind}, {name}{list(shape)}",
                {"x": x, "y": y},
                ours=lambda a, kind=kind: partial(anyop.gelu_and_mul, a.x, kind, out=a.y),
                numpy=(lambda a: partial(plain, a.x)) if kind == "tanh" else None,
                torch=lambda t, a, kind=kind: t.call(partial(of_torch, t, kind), a.x),
                others={"vllm": "tanh_product" if kind == "tanh" else "product"},
                goal="small operator",
                moved=x.nbytes + y.nbytes,
                flops=25 * y.size,
            )
    for name, dtype in each_dtype():
        x, dy = normal(SIZES[1], dtype), normal((SIZES[1][0], SIZES[1][1] // 2), dtype, 1)
        yield Case(
            f"gradient, {name}{list(x.shape)}",
            {"x": x, "dy": dy, "dx": np.empty_like(x)},
            ours=lambda a: partial(anyop.gelu_and_mul_backward, a.dy, a.x, "tanh", out=a.dx),
            torch=lambda t, a: t.gradient(partial(of_torch, t, "tanh"), (a.x,), a.dy),
            moved=2 * x.nbytes + dy.nbytes,
            flops=50 * dy.size,
        )
