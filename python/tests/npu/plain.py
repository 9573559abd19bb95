# SPDX-License-Identifier: Apache-2.0
"""What tests of torch_npu's operators compare with: plain formulas in float64."""

from __future__ import annotations

import math
from typing import Any

import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def rand(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ints(low: int, high: int, *sizes: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=torch.Generator().manual_seed(1)).to(dtype)


def close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    assert got.device.type == "npu" and got.shape == want.shape, (got.shape, want.shape)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got.cpu().double(), want.double(), rtol=tolerance, atol=tolerance)


def same(got: torch.Tensor, want: Any) -> None:
    assert got.device.type == "npu"
    assert got.cpu().tolist() == (want.tolist() if isinstance(want, torch.Tensor) else want)


def rms(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    s = 1 / torch.sqrt(x.double().square().mean(-1, True) + eps)
    return x.double() * s, s


def layer(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mean = x.double().mean(-1, True)
    rstd = 1 / torch.sqrt((x.double() - mean).square().mean(-1, True) + eps)
    return (x.double() - mean) * rstd, mean, rstd


def silu(x: torch.Tensor) -> torch.Tensor:
    return x.double() / (1 + torch.exp(-x.double()))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    d = x.double()
    return d / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (d + 0.044715 * d**3)))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str) -> torch.Tensor:
    d, other = x.double(), torch.empty_like(x.double())
    half = x.size(-1) // 2
    for j in range(half):
        a, b = (j, half + j) if mode == "half" else (2 * j, 2 * j + 1)
        other[..., a], other[..., b] = -d[..., b], d[..., a]
    return d * cos.double() + other * sin.double()
