# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal
from ml_dtypes import float8_e4m3fn

# Rows, width, elements of a group.
SIZES = [(1, 7168, 128), (1024, 128, 128), (2048, 128, 128), (16, 4096, 4096)]


def torch_static(t: TorchSide, a: Any) -> Any:
    def run(x: Any, scale: Any) -> Any:
        return (x.float() * (1 / scale)).clamp(-448, 448).to(t.torch.float8_e4m3fn)

    return t.call(run, a.x, a.scale)


def torch_dynamic(t: TorchSide, group: int, a: Any) -> Any:
    def run(x: Any) -> Any:
        groups = x.float().view(len(x), -1, group)
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
        return (groups / scale).to(t.torch.float8_e4m3fn).view(x.shape), scale[..., 0]

    call = t.call(run, a.x)
    return lambda: call()[0]


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for rows, d, group in SIZES:
            x, q = normal((rows, d), dtype), np.empty((rows, d), float8_e4m3fn)
            yield Case(
                f"static, {name} [{rows}, {d}]",
                {"x": x, "scale": np.full(1, 0.01, F32), "q": q},
                ours=lambda a: partial(anyop.quantize_fp8, a.x, a.scale, out=a.q),
                torch=torch_static,
                moved=x.nbytes + q.nbytes,
                flops=3 * x.size,
                tolerance=0,
            )
            yield Case(
                f"groups of {group}, {name} [{rows}, {d}]",
                {"x": x, "out": (q, np.empty((rows, d // group), F32))},
                ours=lambda a, g=group: partial(anyop.quantize_fp8_dynamic, a.x, g, out=a.out),
                torch=lambda t, a, g=group: torch_dynamic(t, g, a),
                moved=x.nbytes + q.nbytes,
                flops=3 * x.size,
                tolerance=0,
            )
