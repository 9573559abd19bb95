# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal

SIZES = [(1, 7168), (16, 7168), (2048, 2048), (512, 4096), (1, 14336)]


def numpy_static(a: Any) -> Any:
    inverse = 1 / a.scale

    def run() -> Any:
        return np.clip(np.rint(a.x * inverse), -128, 127).astype(np.int8)

    return run


def numpy_dynamic(a: Any) -> Any:
    def run() -> Any:
        largest = np.abs(a.x).max(-1, keepdims=True)
        return np.rint(a.x * (127 / largest)).astype(np.int8)

    return run


def numpy_with_zeros(a: Any) -> Any:
    def run() -> Any:
        x = a.x.astype(F32)
        low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
        inverse = np.float32(255) / (high - low)
        zero = np.rint(-128 - low * inverse)
        return np.clip(np.rint(x * inverse) + zero, -128, 127).astype(np.int8)

    return run


def torch_static(t: TorchSide, a: Any) -> Any:
    def run(x: Any, scale: Any) -> Any:
        return (x.float() * (1 / scale)).round().clamp(-128, 127).to(t.torch.int8)

    return t.call(run, a.x, a.scale)


def torch_dynamic(t: TorchSide, a: Any) -> Any:
    def run(x: Any) -> Any:
        largest = x.abs().amax(-1, keepdim=True).float()
        inverse = t.torch.full_like(largest, 127) / largest  # 127 / largest would round twice
        return (x.float() * inverse).round().to(t.torch.int8), largest / 127

    call = t.call(run, a.x)
    return lambda: call()[0]


def cases() -> Iterator[Case]:
    for rows, d in SIZES:
        for name, dtype in each_dtype():
            x, q = normal((rows, d), dtype), np.empty((rows, d), np.int8)
            scale = np.full(1, 0.03, F32)
            yield Case(
                f"static, {name} [{rows}, {d}]",
                {"x": x, "scale": scale, "q": q},
                ours=lambda a: partial(anyop.quantize_int8, a.x, a.scale, out=a.q),
                numpy=numpy_static,
                torch=torch_static,
                others={"vllm": "static"},
                moved=x.nbytes + q.nbytes,
                flops=3 * x.size,
                tolerance=0,
            )
            yield Case(
                f"dynamic, {name} [{rows}, {d}]",
                {
                    "x": x,
                    "out": (q, np.empty((rows, 1), F32), np.empty((rows, 0), np.int32)),
                },
                ours=lambda a: partial(anyop.quantize_int8_dynamic, a.x, out=a.out),
                numpy=numpy_dynamic,
                torch=torch_dynamic,
                others={"vllm": "dynamic"},
                others_tolerance=1 / 127,  # it multiplies by a rounded inverse
                moved=x.nbytes + q.nbytes,
                flops=3 * x.size,
                tolerance=0,
            )
            yield Case(
                f"dynamic, zero points, {name} [{rows}, {d}]",
                {
                    "x": x,
                    "out": (q, np.empty((rows, 1), F32), np.empty((rows, 1), np.int32)),
                },
                ours=lambda a: partial(anyop.quantize_int8_dynamic, a.x, True, "data", out=a.out),
                numpy=numpy_with_zeros,
                others={"vllm": "dynamic_with_zeros"},
                others_tolerance=1 / 127,
                moved=x.nbytes + q.nbytes,
                flops=4 * x.size,
                tolerance=0,
            )
        q = np.random.default_rng(0).integers(-127, 128, (rows, d), np.int8)
        yield Case(
            f"back to f32 [{rows}, {d}]",
            {"q": q, "scale": np.full((rows, 1), 0.03, F32), "x": np.empty((rows, d), F32)},
            ours=lambda a: partial(anyop.dequantize_int8, a.q, a.scale, out=a.x),
            numpy=lambda a: lambda: a.q * a.scale,
            torch=lambda t, a: t.call(lambda u, s: u.float() * s, a.q, a.scale),
            moved=5 * q.nbytes,
            flops=2 * q.size,
            tolerance=0,
        )
