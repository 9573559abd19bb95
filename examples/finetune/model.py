# SPDX-License-Identifier: Apache-2.0
"""A Llama decoder to train, on either set of operators; all weights, or low-rank additions."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from examples.smollm2.weights import Config

from .operators import Operators

MERGED = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "output": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


class Linear(nn.Module):
    """x W^T, plus x A^T B^T with `rank` > 0: then W is frozen, and B starts at zero."""

    def __init__(self, weight: Tensor, rank: int, random: torch.Generator) -> None:
        super().__init__()
        n, k = weight.shape
        self.weight = nn.Parameter(weight, requires_grad=rank == 0)
        self.a: nn.Parameter | None = None
        self.b: nn.Parameter | None = None
        if rank:
            self.a = nn.Parameter(torch.randn(rank, k, generator=random) / k**0.5)
            self.b = nn.Parameter(torch.zeros(n, rank))

    def forward(self, o: Operators, x: Tensor) -> Tensor:
        y = o.linear(x, self.weight)
        if self.a is None or self.b is None:
            return y
        return o.add(y, o.linear(o.linear(x, self.a), self.b))


class Layer(nn.Module):
    qkv: Linear
    output: Linear
    gate_up: Linear
    down: Linear

    def __init__(
        self, c: Config, weights: dict[str, Tensor], rank: int, random: torch.Generator
    ) -> None:
        super().__init__()
        self.c = c
        self.attn_norm = nn.Parameter(weights["attn_norm"], requires_grad=rank == 0)
        self.ffn_norm = nn.Parameter(weights["ffn_norm"], requires_grad=rank == 0)
        for name, parts in MERGED.items():
            merged = torch.cat([weights[part] for part in parts])
            setattr(self, name, Linear(merged, rank, random))

    def attention(self, o: Operators, x: Tensor) -> Tensor:
        c = self.c
        heads = self.qkv.forward(o, x).view(len(x), -1, c.head_dim)
        q, k, v = heads.split((c.heads, c.kv_heads, c.kv_heads), 1)
        attended = o.attention(o.rotate(q), o.rotate(k), v).reshape(len(x), c.hidden)
        return self.output.forward(o, attended)

    def feed_forward(self, o: Operators, x: Tensor) -> Tensor:
        return self.down.forward(o, o.silu_and_mul(self.gate_up.forward(o, x)))


class Decoder(nn.Module):
    """`rank` 0 trains all weights, which are copied; the head is the embedding, as in SmolLM2."""

    def __init__(
        self, c: Config, tensors: dict[str, NDArray[np.float32]], rank: int, seed: int = 0
    ) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)

        def layer(i: int) -> Layer:
            prefix, suffix = f"blk.{i}.", ".weight"
            mine = {
                name[len(prefix) : -len(suffix)]: torch.tensor(w)
                for name, w in tensors.items()
                if name.startswith(prefix)
            }
            return Layer(c, mine, rank, random)

        made = [layer(i) for i in range(c.layers)]
        self.layers, self._made = nn.ModuleList(made), made
        table = torch.tensor(tensors["token_embd.weight"])
        self.embedding = nn.Parameter(table, requires_grad=rank == 0)
        self.norm = nn.Parameter(
            torch.tensor(tensors["output_norm.weight"]), requires_grad=rank == 0
        )

    def forward(self, o: Operators, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean cross entropy of targets[t] after ids[t]."""
        norms = [layer.attn_norm for layer in self._made[1:]] + [self.norm]
        x = o.embedding(ids, self.embedding)
        y = o.norm(x, self._made[0].attn_norm)
        for layer, next_norm in zip(self._made, norms, strict=True):
            y, x = o.add_norm(layer.attention(o, y), x, layer.ffn_norm)
            y, x = o.add_norm(layer.feed_forward(o, y), x, next_norm)
        return F.cross_entropy(o.linear(y, self.embedding), targets)
