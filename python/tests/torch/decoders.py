# SPDX-License-Identifier: Apache-2.0
"""Small decoder models as others write them: norms, rotations, masks and caches by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, KEYS, HEAD = 64, 4, 2, 16


class Norm(nn.Module):
    def __init__(self, width: int, offset: float = 0.0) -> None:
        super().__init__()
        self.weight, self.offset = nn.Parameter(torch.rand(width) + 0.5), offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.offset:
            return (wide * (self.offset + self.weight.float())).to(x.dtype)
        return self.weight * wide.to(x.dtype)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    r = cos.shape[-1]
    turned, rest = x[..., :r], x[..., r:]
    turned = turned * cos + rotate_half(turned) * sin
    return torch.cat((turned, rest), -1) if rest.shape[-1] else turned


def repeated(x: torch.Tensor, n: int) -> torch.Tensor:
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, n, t, d).reshape(b, h * n, t, d) if n > 1 else x


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class Layer(nn.Module):
    """kind: llama; gemma (norms of 1 + weight, gelu); phi (half a head rotated, layer_norm)."""

    def __init__(self, kind: str, batch: int, length: int) -> None:
        super().__init__()
        self.kind, self.keys = kind, HEADS if kind == "phi" else KEYS
        self.q = nn.Linear(WIDTH, WIDTH, bias=kind == "phi")
        self.k, self.v = (nn.Linear(WIDTH, self.keys * HEAD, bias=False) for _ in range(2))
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.gate = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        make = {"llama": lambda: Norm(WIDTH), "gemma": lambda: Norm(WIDTH, 1.0),
                "phi": lambda: nn.LayerNorm(WIDTH)}[kind]  # fmt: skip
        self.norm, self.post = make(), make()
        for name in ("key_cache", "value_cache"):
            self.register_buffer(name, torch.zeros(batch, self.keys, length, HEAD))

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "phi":
            return self.down(gelu_new(self.up(x)))
        gate = self.gate(x)
        gate = F.silu(gate) if self.kind == "llama" else F.gelu(gate, approximate="tanh")
        return self.down(gate * self.up(x))

    def forward(self, x, cos, sin, mask, at):  # type: ignore[no-untyped-def]
        b, t, _ = x.shape
        y = self.norm(x)
        q, k, v = (f(y).view(b, t, -1, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if at is not None:
            self.key_cache.index_copy_(2, at, k)
            self.value_cache.index_copy_(2, at, v)
            k, v = self.key_cache, self.value_cache
        k, v = repeated(k, HEADS // self.keys), repeated(v, HEADS // self.keys)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.mlp(self.post(x))


class Decoder(nn.Module):
    def __init__(self, kind: str, layers: int = 2, batch: int = 1, length: int = 12) -> None:
        super().__init__()
        self.kind, self.length = kind, length
        self.table = nn.Embedding(50, WIDTH)
        self.layers = nn.ModuleList(Layer(kind, batch, length) for _ in range(layers))
        width = HEAD // 2 if kind == "phi" else HEAD
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, width, 2) / width))

    def forward(self, ids: torch.Tensor, position: torch.Tensor | None = None) -> torch.Tensor:
        """position: of the first token; its keys go to the cache. Without it there is no cache."""
        t = ids.shape[1]
        at = torch.arange(t) + (0 if position is None else position)
        keys = torch.arange(t if position is None else self.length)
        mask = keys[None, None, None, :] <= at[None, None, :, None]
        angles = at[None, :, None].float() * self.frequencies[None, None, :]
        angles = torch.cat((angles, angles), dim=-1)
        x = self.table(ids)
        cos, sin = (f.to(x.dtype).unsqueeze(1) for f in (angles.cos(), angles.sin()))
        for layer in self.layers:
            x = layer(x, cos, sin, mask, None if position is None else at)
        return x @ self.table.weight.t()
