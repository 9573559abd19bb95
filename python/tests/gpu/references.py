# SPDX-License-Identifier: Apache-2.0
"""The five operators in double on the CPU, by torch, and how near to them results must be."""

from __future__ import annotations

from typing import Any

import torch

# The least binary exponent and the bits behind the point.
FORMATS = {torch.float32: (-126, 23), torch.float16: (-14, 10), torch.bfloat16: (-126, 7)}


def double(x: Any) -> Any:
    return x.detach().cpu().double()


def rms_norm(x: Any, weight: Any, eps: float = 1e-6, offset: float = 0.0) -> Any:
    x = double(x)
    y = x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return y if weight is None else y * (double(weight) + offset)


def silu_and_mul(x: Any) -> Any:
    gate, up = double(x).chunk(2, -1)
    return gate * torch.sigmoid(gate) * up


def rotary(x: Any, positions: Any, table: Any, offset: int, style: str, inverse: bool) -> Any:
    """x: [t, h, d]; rows whose position is negative stay as they are."""
    x, table = double(x), double(table)
    half = table.shape[1] // 2
    rows = positions.cpu().long() if positions is not None else torch.arange(x.shape[0])
    w = table[rows.clamp(min=0)]
    c, s = w[:, None, :half], w[:, None, half:] * (-1 if inverse else 1)
    z = x[..., offset : offset + 2 * half]
    if style == "neox":
        a, b = z[..., :half], z[..., half:]
        turned = torch.cat([a * c - b * s, b * c + a * s], -1)
    else:
        a, b = z[..., 0::2], z[..., 1::2]
        turned = torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)
    y = x.clone()
    y[..., offset : offset + 2 * half] = torch.where((rows >= 0)[:, None, None], turned, z)
    return y


def ulp(x: Any, dtype: Any) -> Any:
    """The unit in the last place of the numbers around x in a format."""
    least, bits = FORMATS[dtype]
    exponent = torch.frexp(x.abs())[1] - 1
    return torch.ldexp(torch.ones_like(x), exponent.clamp(min=least) - bits)


def assert_near(got: Any, expected: Any, allowed: Any = 0.0, what: str = "") -> None:
    """One rounding to got's dtype of what is within `allowed` of the reference, in units of f32."""
    expected = expected.expand(got.shape)
    if not got.numel():
        return
    dtype, got = got.dtype, double(got)
    assert not torch.isnan(got).any(), f"{what}: NaN"
    half = 0.51 * ulp(expected, dtype) if dtype != torch.float32 else 0
    slack = 2.0**-24 * (4 * expected.abs() + allowed) + half + 2.0**-126
    wrong = (got - expected).abs() > slack
    if wrong.any():
        place = tuple(int(i) for i in wrong.nonzero()[0])
        count = int(wrong.sum())
        why = (
            f"{count} of {wrong.numel()} differ, first {place}: {got[place]} for {expected[place]}"
        )
        raise AssertionError(f"{what}: {why}")
