# SPDX-License-Identifier: Apache-2.0
"""What a decoder layer is made of, twice: anyop's operators, and PyTorch's own.

Tokens of a batch lie end to end: x [t, d], heads [t, h, head_dim], t = sequences * length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import anyop
import torch
import torch.nn.functional as F
from torch import Tensor


class Operators(Protocol):
    def embedding(self, ids: Tensor, weight: Tensor) -> Tensor: ...

    def norm(self, x: Tensor, weight: Tensor) -> Tensor: ...

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The norm of the sum, and the sum."""

    def linear(self, x: Tensor, weight: Tensor) -> Tensor: ...

    def add(self, x: Tensor, y: Tensor) -> Tensor: ...

    def rotate(self, x: Tensor) -> Tensor: ...

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...

    def silu_and_mul(self, x: Tensor) -> Tensor: ...


class AnyopOperators:
    def __init__(
        self, sequences: int, length: int, head_dim: int, rope_base: float, eps: float
    ) -> None:
        self.eps = eps
        table = anyop.rotary_cache(length, head_dim, base=rope_base)
        self.cos_sin = torch.from_numpy(table)
        self.positions = torch.arange(length).repeat(sequences)
        self.starts = torch.arange(0, sequences * length + 1, length, dtype=torch.int32)
        self.embedding, self.linear, self.add = anyop.embedding, anyop.linear, anyop.add
        self.silu_and_mul = anyop.silu_and_mul

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return anyop.rms_norm(x, weight, self.eps)

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return anyop.add_rms_norm(x, residual, weight, self.eps)

    def rotate(self, x: Tensor) -> Tensor:
        return anyop.rope(x, self.positions, self.cos_sin, 0, "gptj")

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return anyop.attention(q, k, v, self.starts, self.starts, return_lse=True)[0]


class TorchOperators:
    def __init__(
        self, sequences: int, length: int, head_dim: int, rope_base: float, eps: float
    ) -> None:
        self.eps, self.shape = eps, (sequences, length)
        powers = -torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        angle = torch.arange(length, dtype=torch.float64)[:, None] * rope_base**powers
        turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
        self.turn = turn.repeat(sequences, 1)[:, None]

    def embedding(self, ids: Tensor, weight: Tensor) -> Tensor:
        return F.embedding(ids, weight)

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        total = x + residual
        return self.norm(total, weight), total

    def rotate(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turn).flatten(-2)

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (z.view(*self.shape, *z.shape[1:]).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).flatten(0, 1)

    def silu_and_mul(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up


OPERATORS: dict[str, Callable[[int, int, int, float, float], Any]] = {
    "anyop": AnyopOperators,
    "torch": TorchOperators,
}
