# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import BF16, F32, Case, TorchSide, normal

SIZES = [(1, 4096, 4096), (16, 4096, 4096), (512, 4096, 4096), (16, 7168, 2112)]


def packed(a: Any) -> partial[Any]:
    weight = np.asarray(anyop.pack_weight_int8(a.weight))
    return partial(anyop.linear_int8_packed, a.x, weight, len(a.weight), a.weight_scale, out=a.y)


def unpacked(a: Any) -> partial[Any]:
    return partial(anyop.linear_int8, a.x, a.weight, a.weight_scale, out=a.y)


# Bytes of x, scale of each row.
def of_numpy(a: Any) -> Any:
    weight = a.weight.astype(np.float32).T  # NumPy multiplies integers without BLAS

    def run() -> Any:
        scale = np.abs(a.x).max(-1, keepdims=True) / np.float32(127)
        return np.rint(a.x / scale) @ weight * scale * a.weight_scale

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    def run(x: Any, weight: Any, weight_scale: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 127
        q = (x.float() / scale).round().to(t.torch.int8)
        return (t.torch._int_mm(q, weight.T).float() * scale * weight_scale).to(x.dtype)

    return t.call(run, a.x, a.weight, a.weight_scale)


def quantized_cases() -> Iterator[Case]:
    """The sums alone, with scales of 1: what torch._int_mm gives."""
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        x = rng.integers(-127, 128, (m, k), np.int8)
        weight = rng.integers(-127, 128, (n, k), np.int8)
        y = np.empty((m, n), F32)
        yield Case(
            f"i8 [{m},{k}]x[{n},{k}] to f32",
            {
                "x": x,
                "x_scale": np.ones((m, 1), F32),
                "weight": weight,
                "weight_scale": np.ones(n, F32),
                "y": y,
            },
            ours=lambda a: partial(
                anyop.linear_int8_quantized,
                a.x,
                a.x_scale,
                a.weight,
                a.weight_scale,
                None,
                "f32",
                out=a.y,
            ),
            torch=lambda t, a: t.call(lambda u, w: t.torch._int_mm(u, w.T), a.x, a.weight),
            others={"vllm": "quantized"},
            moved=x.nbytes + weight.nbytes + y.nbytes,
            flops=2 * m * n * k,
            rate="int8 dot",
            tolerance=1e-6,
            note="torch stops at the integer sums",
        )


def in_bytes(a: Any, has_zero: bool) -> partial[Any]:
    """x is bytes, the weight packed, its sums made before where there are zero points."""
    weight, n = np.asarray(anyop.pack_weight_int8(a.weight)), len(a.weight)
    sums = np.asarray(anyop.sum_weight_int8(a.weight)) if has_zero else None
    zero = a.x_zero if has_zero else None
    return partial(
        anyop.linear_int8_quantized_packed,
        *(a.x, a.x_scale, weight, n, a.weight_scale, None, "bf16", zero, sums),
        out=a.y,
    )


def of_numpy_in_bytes(a: Any, has_zero: bool) -> Any:
    weight = a.weight.astype(np.float32).T

    def run() -> Any:
        x = a.x.astype(np.float32) - (a.x_zero if has_zero else 0)
        return x @ weight * a.x_scale * a.weight_scale

    return run


# What vLLM's handler is made for: how, its function, zero points, one scale for all rows.
WAYS = (
    ("dynamic", "dynamic", False, False),
    ("dynamic, zero points", "dynamic_with_zeros", True, False),
    ("static", "static", False, True),
    ("static, zero point", "static_with_zero", True, True),
)


def cases_in_bytes() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        x = rng.integers(-127, 128, (m, k), np.int8)
        weight = rng.integers(-127, 128, (n, k), np.int8)
        y = np.empty((m, n), BF16)
        for how, theirs, has_zero, is_static in WAYS:
            numbers = (1,) if is_static else (m, 1)
            yield Case(
                f"i8 [{m},{k}]x[{n},{k}] to bf16, {how}",
                {
                    "x": x,
                    "x_scale": np.full(numbers, 0.02, F32),
                    "x_zero": np.full(numbers, -12, np.int32),
                    "weight": weight,
                    "weight_scale": np.full(n, k**-0.5 / 127, F32),
                    "y": y,
                },
                ours=partial(in_bytes, has_zero=has_zero),
                numpy=partial(of_numpy_in_bytes, has_zero=has_zero),
                others={"vllm": theirs},
                moved=x.nbytes + weight.nbytes + y.nbytes,
                flops=2 * m * n * k,
                rate="int8 dot",
                tolerance=2e-2,
            )


def cases() -> Iterator[Case]:
    for m, k, n in SIZES:
        x = normal((m, k), BF16, 0)
        weight = np.random.default_rng(1).integers(-127, 128, (n, k), np.int8)
        y = np.empty((m, n), BF16)
        for how, ours in (("packed", packed), ("as it is", unpacked)):
            yield Case(
                f"bf16 [{m},{k}]x[{n},{k}] {how}",
                {
                    "x": x,
                    "weight": weight,
                    "weight_scale": np.full(n, k**-0.5 / 127, F32),
                    "y": y,
                },
                ours=ours,
                numpy=of_numpy,
                torch=of_torch,
                others={"vllm": "product"},
                goal="many rows, int8" if ours is packed and m > 1 else "",
                moved=x.nbytes + weight.nbytes + y.nbytes,
                flops=2 * m * n * k,
                rate="int8 dot",
                tolerance=2e-2,
            )
    yield from quantized_cases()
    yield from cases_in_bytes()
