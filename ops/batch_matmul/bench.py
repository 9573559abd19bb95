# SPDX-License-Identifier: Apache-2.0
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [
    (128, 1, 128, 512, "nn"),
    (128, 16, 128, 512, "nn"),
    (128, 16, 512, 128, "nt"),
    (9, 512, 64, 512, "nt"),
    (9, 512, 512, 64, "nn"),
    (9, 512, 512, 64, "tn"),
    (2, 1024, 1024, 1024, "nn"),
]


def torch_bmm(x: np.ndarray, y: np.ndarray) -> Callable[[], Any] | None:
    """torch.bmm of two batches of matrices, transposed as they are; None without torch."""
    if not importlib.util.find_spec("torch"):
        return None
    import torch

    def tensor(a: np.ndarray) -> torch.Tensor:
        if a.dtype == BF16:
            return torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(a)

    torch.set_num_threads(anyop.get_num_threads())
    a, b = tensor(x), tensor(y)
    return lambda: torch.bmm(a, b)


def torch_gradient(
    dz: np.ndarray, x: np.ndarray, y: np.ndarray, form: str
) -> Callable[[], Any] | None:
    dx, dy = torch_bmm(dz, y.swapaxes(1, 2)), torch_bmm(x.swapaxes(1, 2), dz)
    if not dx or not dy:
        return None

    def both(dx=dx, dy=dy) -> Any:
        dy()
        return dx().swapaxes(1, 2) if form == "tn" else dx()

    return both


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for b, m, k, n, form in SIZES:
        x = random.standard_normal((b, k, m) if form == "tn" else (b, m, k), np.float32)
        y = random.standard_normal((b, n, k) if form == "nt" else (b, k, n), np.float32)
        dz = random.standard_normal((b, m, n), np.float32)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            s, t, d = x.astype(dtype), y.astype(dtype), dz.astype(dtype)
            z, out = np.empty((b, m, n), dtype), (np.empty_like(s), np.empty_like(t))
            work = {"moved": s.nbytes + t.nbytes + z.nbytes, "flops": 2 * b * m * n * k}
            sizes = f"{name} {form} {b} of [{m},{k}]x[{k},{n}]"

            def ours(s=s, t=t, z=z, form=form):
                return anyop.batch_matmul(s, t, form, out=z)

            left = s.swapaxes(1, 2) if form == "tn" else s
            right = t.swapaxes(1, 2) if form == "nt" else t
            bmm = torch_bmm(left, right)
            if bmm:
                yield Case(f"{sizes} beside torch.bmm", ours, bmm, **work)
            if name == "f32":
                yield Case(sizes, ours, lambda a=left, b=right: np.matmul(a, b), **work)
            yield Case(
                f"{sizes}, its gradient",
                lambda s=s, t=t, d=d, out=out, form=form: anyop.batch_matmul_backward(
                    d, s, t, form, out=out
                )[0],
                torch_gradient(d, left, right, form),
                moved=2 * (s.nbytes + t.nbytes + z.nbytes),
                flops=4 * b * m * n * k,
                note="beside two torch.bmm" if bmm else "",
            )
