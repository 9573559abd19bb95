# SPDX-License-Identifier: Apache-2.0
"""Random weights with the names and shapes of transformers' Qwen3MoeForCausalLM."""

from __future__ import annotations

import torch
from torch import Tensor

from .model import Config


def random_weights(c: Config, seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}

    def add(name: str, *shape: int) -> None:
        scale = 1 if name.endswith("embed_tokens.weight") else shape[-1] ** -0.5
        weights[name] = torch.randn(shape, generator=random) * scale

    def norm(name: str, size: int) -> None:
        weights[name] = 1 + 0.1 * torch.randn(size, generator=random)

    add("model.embed_tokens.weight", c.vocab, c.hidden)
    for i in range(c.layers):
        layer = f"model.layers.{i}."
        norm(layer + "input_layernorm.weight", c.hidden)
        norm(layer + "post_attention_layernorm.weight", c.hidden)
        for name, heads in (("q", c.heads), ("k", c.kv_heads), ("v", c.kv_heads)):
            add(layer + f"self_attn.{name}_proj.weight", heads * c.head_dim, c.hidden)
        add(layer + "self_attn.o_proj.weight", c.hidden, c.heads * c.head_dim)
        norm(layer + "self_attn.q_norm.weight", c.head_dim)
        norm(layer + "self_attn.k_norm.weight", c.head_dim)
        add(layer + "mlp.gate.weight", c.experts, c.hidden)
        add(layer + "mlp.experts.gate_up_proj", c.experts, 2 * c.expert_width, c.hidden)
        add(layer + "mlp.experts.down_proj", c.experts, c.hidden, c.expert_width)
    norm("model.norm.weight", c.hidden)
    add("lm_head.weight", c.vocab, c.hidden)
    return weights
