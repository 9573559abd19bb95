# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, each_dtype, normal

SIZES = [
    (1, 576, 960),
    (1, 576, 49152),
    (16, 576, 3072),
    (512, 1536, 576),
    (1, 4096, 4096),
    (16, 4096, 4096),
    (512, 4096, 4096),
]
BACKWARD_SIZES = [(512, 576, 1536), (512, 1536, 576), (512, 576, 49152)]


def backward_cases() -> Iterator[Case]:
    for m, k, n in BACKWARD_SIZES:
        for name, dtype in each_dtype():
            x, weight = normal((m, k), dtype, 1), normal((n, k), dtype, 2)
            dy = normal((m, n), dtype, 3)
            yield Case(
                f"gradient, {name} [{m},{k}]x[{n},{k}]",
                {
                    "dy": dy,
                    "x": x,
                    "weight": weight,
                    "bias": normal((n,), dtype, 4),
                    "out": (np.empty_like(x), np.empty_like(weight), np.empty(n, dtype)),
                },
                ours=lambda a: partial(
                    anyop.linear_backward, a.dy, a.x, a.weight, "none", out=a.out
                ),
                torch=lambda t, a: t.gradient(t.F.linear, (a.x, a.weight, a.bias), a.dy),
                moved=2 * (x.nbytes + weight.nbytes + dy.nbytes),
                flops=4 * m * n * k,
                rate=RATES[name],
                tolerance=2e-2,
            )


def packed(a: Any) -> partial[Any]:
    return partial(
        anyop.linear_packed, a.x, np.asarray(anyop.pack_weight(a.weight)), len(a.weight), out=a.y
    )


def unpacked(a: Any) -> partial[Any]:
    return partial(anyop.linear, a.x, a.weight, out=a.y)


def cases() -> Iterator[Case]:
    for m, k, n in SIZES:
        for name, dtype in each_dtype():
            x, weight = normal((m, k), dtype, 0), normal((n, k), dtype, 1, scale=k**-0.5)
            y = np.empty((m, n), dtype)
            goal = "one row" if m == 1 else "many rows"
            for how, ours in (("packed", packed), ("as it is", unpacked)):
                yield Case(
                    f"{name} [{m},{k}]x[{n},{k}] {how}",
                    {"x": x, "weight": weight, "y": y, "format": name},
                    ours=ours,
                    numpy=lambda a: partial(np.matmul, a.x, a.weight.T),
                    torch=lambda t, a: t.call(t.F.linear, a.x, a.weight, weights=(a.weight,)),
                    others={"vllm": "product", "llama": "product"},
                    goal=goal if ours is packed else "",
                    moved=x.nbytes + weight.nbytes + y.nbytes,
                    flops=2 * m * n * k,
                    rate=RATES[name],
                    tolerance=2e-2,
                )
    yield from backward_cases()
