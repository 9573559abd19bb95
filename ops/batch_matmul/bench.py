# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

SIZES = [
    (128, 1, 128, 512, "nn"),
    (128, 16, 128, 512, "nn"),
    (128, 16, 512, 128, "nt"),
    (9, 512, 64, 512, "nt"),
    (9, 512, 512, 64, "nn"),
    (9, 512, 512, 64, "tn"),
    (2, 1024, 1024, 1024, "nn"),
]


def factors(x: Any, y: Any, form: str) -> tuple[Any, Any]:
    """Transposed as the word says."""
    return x.swapaxes(1, 2) if form == "tn" else x, y.swapaxes(1, 2) if form == "nt" else y


def of_torch(t: TorchSide, a: Any, form: str) -> Any:
    return t.call(lambda x, y: t.torch.bmm(*factors(x, y, form)), a.x, a.y)


def gradient_of_torch(t: TorchSide, a: Any, form: str) -> Any:
    return t.gradient(lambda x, y: t.torch.bmm(*factors(x, y, form)), (a.x, a.y), a.dz)


def cases() -> Iterator[Case]:
    for b, m, k, n, form in SIZES:
        for name, dtype in each_dtype():
            x = normal((b, k, m) if form == "tn" else (b, m, k), dtype, 0)
            y = normal((b, n, k) if form == "nt" else (b, k, n), dtype, 1)
            z = np.empty((b, m, n), dtype)
            sizes = f"{name} {form} {b} of [{m},{k}]x[{k},{n}]"
            yield Case(
                sizes,
                {"x": x, "y": y, "z": z},
                ours=lambda a, form=form: partial(anyop.batch_matmul, a.x, a.y, form, out=a.z),
                numpy=lambda a, form=form: partial(np.matmul, *factors(a.x, a.y, form)),
                torch=partial(of_torch, form=form),
                moved=x.nbytes + y.nbytes + z.nbytes,
                flops=2 * b * m * n * k,
                rate=RATES[name],
            )
            yield Case(
                f"gradient, {sizes}",
                {
                    "x": x,
                    "y": y,
                    "dz": normal((b, m, n), dtype, 2),
                    "out": (np.empty_like(x), np.empty_like(y)),
                },
                ours=lambda a, form=form: partial(
                    anyop.batch_matmul_backward, a.dz, a.x, a.y, form, out=a.out
                ),
                torch=partial(gradient_of_torch, form=form),
                moved=2 * (x.nbytes + y.nbytes + z.nbytes),
                flops=4 * b * m * n * k,
                rate=RATES[name],
            )
