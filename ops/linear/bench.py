# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [
    (1, 576, 960),
    (1, 576, 49152),
    (16, 576, 3072),
    (512, 1536, 576),
    (1, 4096, 4096),
    (512, 4096, 4096),
]

BACKWARD_SIZES = [(512, 576, 1536), (512, 1536, 576), (512, 576, 49152)]


def backward_cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for m, k, n in BACKWARD_SIZES:
        dy = random.standard_normal((m, n), np.float32)
        x = random.standard_normal((m, k), np.float32)
        weight = random.standard_normal((n, k), np.float32)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            a, b, w = dy.astype(dtype), x.astype(dtype), weight.astype(dtype)
            out = (np.empty_like(b), np.empty_like(w), np.empty(n, dtype))

            def plain(dy=dy, x=x, weight=weight):
                dy.sum(0)
                dy.T @ x
                return dy @ weight

            yield Case(
                f"{name} backward of [{m},{k}]x[{n},{k}]",
                lambda a=a, b=b, w=w, out=out: anyop.linear_backward(a, b, w, "none", out=out)[0],
                plain,
                moved=2 * (a.nbytes + b.nbytes + w.nbytes),
                flops=4 * m * n * k,
                tolerance=2e-2,
                note="NumPy in f32" if name == "bf16" else "",
            )


def cases() -> Iterator[Case]:
    yield from backward_cases()
    random = np.random.default_rng(0)
    for m, k, n in SIZES:
        x = random.standard_normal((m, k), np.float32)
        weight = random.standard_normal((n, k), np.float32) / np.float32(k**0.5)
        reference = np.empty((m, n), np.float32)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            a, w, y = x.astype(dtype), weight.astype(dtype), np.empty((m, n), dtype)
            packed = anyop.pack_weight(w)
            work = {"moved": a.nbytes + w.nbytes + y.nbytes, "flops": 2 * m * n * k}
            sizes = f"{name} [{m},{k}]x[{n},{k}]"

            def plain(x=x, weight=weight, reference=reference):
                return np.matmul(x, weight.T, out=reference)

            note = "NumPy in f32" if name == "bf16" else ""
            yield Case(
                sizes + " packed",
                lambda a=a, p=packed, n=n, y=y: anyop.linear_packed(a, p, n, out=y),
                plain,
                tolerance=2e-2,
                note=note,
                **work,
            )
            yield Case(
                sizes,
                lambda a=a, w=w, y=y: anyop.linear(a, w, out=y),
                plain,
                tolerance=2e-2,
                note=note,
                **work,
            )
