# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V3.2's shape, tiny: latent attention, experts with a shared one, an indexer.

The parameters are those of one module. `train.py` runs whole sequences through operators that have
gradients; `decode.py` runs one token at a time over caches of latents.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Config:
    hidden: int = 48
    heads: int = 4
    q_rank: int = 32
    latent: int = 32
    rope: int = 8
    nope: int = 16
    value: int = 16
    experts: int = 8
    top: int = 2
    groups: int = 4
    top_groups: int = 2
    expert_width: int = 32
    layers: int = 2
    vocab: int = 61
    index_heads: int = 2
    index_width: int = 16
    scaling: float = 2.5  # of the router's weights
    eps: float = 1e-6

    @property
    def head(self) -> int:
        return self.nope + self.rope

    @property
    def scale(self) -> float:
        return float(self.head**-0.5)


def matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)


class Layer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.attention_norm = nn.Parameter(torch.ones(c.hidden))
        self.q_down, self.q_norm = matrix(c.q_rank, c.hidden), nn.Parameter(torch.ones(c.q_rank))
        self.q_up = matrix(c.heads * c.head, c.q_rank)
        self.kv_down = matrix(c.latent + c.rope, c.hidden)
        self.kv_norm = nn.Parameter(torch.ones(c.latent))
        self.k_up = nn.Parameter(torch.randn(c.heads, c.nope, c.latent) * c.latent**-0.5)
        self.v_up = nn.Parameter(torch.randn(c.heads, c.value, c.latent) * c.latent**-0.5)
        self.output = matrix(c.hidden, c.heads * c.value)
        # The indexer takes no part in dense training: it keeps its first values.
        self.index_q = matrix(c.index_heads * c.index_width, c.q_rank)
        self.index_k = matrix(c.index_width, c.hidden)
        self.index_norm = nn.Parameter(torch.ones(c.index_width))
        self.index_bias = nn.Parameter(torch.zeros(c.index_width))
        self.index_weights = matrix(c.index_heads, c.hidden)

        self.experts_norm = nn.Parameter(torch.ones(c.hidden))
        self.router = matrix(c.experts, c.hidden)
        self.bias = nn.Buffer(torch.zeros(c.experts))
        self.gate_up = nn.Parameter(
            torch.randn(c.experts, 2 * c.expert_width, c.hidden) * c.hidden**-0.5
        )
        self.down = nn.Parameter(
            torch.randn(c.experts, c.hidden, c.expert_width) * c.expert_width**-0.5
        )
        self.shared_gate_up = matrix(2 * c.expert_width, c.hidden)
        self.shared_down = matrix(c.hidden, c.expert_width)


class Model(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.embedding = nn.Parameter(torch.randn(c.vocab, c.hidden))
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.hidden))
        self.head = matrix(c.vocab, c.hidden)
