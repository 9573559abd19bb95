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


def in_bytes(a: Any, has_zero: bool, is_static: bool) -> Any:
    """The two calls that vLLM makes: x to bytes, then the product with a weight that is packed."""
    weight, n = np.asarray(anyop.pack_weight_int8(a.weight)), len(a.weight)
    sums = np.asarray(anyop.sum_weight_int8(a.weight)) if has_zero else None
    m, q = len(a.x), np.empty(a.x.shape, np.int8)
    scale, zero = np.empty((m, 1), F32), np.empty((m, has_zero), np.int32)
    if is_static:
        scale, zero = a.x_scale, a.x_zero

    def run() -> None:
        if is_static:
            anyop.quantize_int8(a.x, scale, zero if has_zero else None, out=q)
        else:
            anyop.quantize_int8_dynamic(a.x, has_zero, out=(q, scale, zero))
        anyop.linear_int8_quantized_packed(
            q, scale, weight, n, a.weight_scale, None, "bf16", zero if has_zero else None, sums,
            out=a.y,
        )  # fmt: skip

    return run


def of_numpy_in_bytes(a: Any, has_zero: bool, is_static: bool) -> Any:
    weight = a.weight.astype(np.float32).T

    def run() -> Any:
        x = a.x.astype(np.float32)
        if is_static:
            scale, zero = a.x_scale, a.x_zero if has_zero else 0
        elif has_zero:
            low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
            scale = ((high - low) / np.float32(255))[:, None]
            zero = np.rint(-128 - low[:, None] / scale)
        else:
            scale, zero = np.abs(x).max(-1, keepdims=True) / np.float32(127), 0
        q = np.clip(np.rint(x / scale) + zero, -128, 127) - zero
        return q @ weight * scale * a.weight_scale

    return run


WAYS = (
    ("dynamic", "product", False, False),
    ("dynamic, zero points", "product_with_zeros", True, False),
    ("static", "static", False, True),
    ("static, zero point", "static_with_zero", True, True),
)


def cases_in_bytes() -> Iterator[Case]:
    for m, k, n in SIZES:
        x = (normal((m, k), F32, 0) + 0.5).astype(BF16)
        weight = np.random.default_rng(1).integers(-127, 128, (n, k), np.int8)
        y = np.empty((m, n), BF16)
        for how, theirs, has_zero, is_static in WAYS:
            yield Case(
                f"bf16 [{m},{k}]x[{n},{k}] in two calls, {how}",
                {
                    "x": x,
                    "x_scale": np.full(1, 0.04, F32),
                    "x_zero": np.full(1, -12, np.int32),
                    "weight": weight,
                    "weight_scale": np.full(n, k**-0.5 / 127, F32),
                    "y": y,
                },
                ours=partial(in_bytes, has_zero=has_zero, is_static=is_static),
                numpy=partial(of_numpy_in_bytes, has_zero=has_zero, is_static=is_static),
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
