# SPDX-License-Identifier: Apache-2.0
"""A decoder of Qwen3-MoE's shape on anyop's operators, with a paged key/value cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyop
import torch
from torch import Tensor

BLOCK = 16  # tokens of a cache block


@dataclass(frozen=True)
class Config:
    """Qwen3-30B-A3B has 2048, 32 heads, 4 of them keys, 128 experts of 768, 8 used, 48 layers."""

    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    experts: int = 8
    top: int = 2
    expert_width: int = 48
    layers: int = 2
    vocab: int = 199
    eps: float = 1e-6
    rope_base: float = 10000.0


class Linear:
    """y = x weight^T, the weight packed when it is loaded."""

    def __init__(self, *weights: Tensor) -> None:
        weight = torch.cat(weights)
        self.packed, self.features = anyop.pack_weight(weight), len(weight)

    def __call__(self, x: Tensor) -> Tensor:
        return anyop.linear_packed(x, self.packed, self.features)


class Attention:
    def __init__(self, c: Config, weights: Mapping[str, Tensor], max_tokens: int) -> None:
        self.c = c
        self.qkv = Linear(*(weights[f"{n}_proj.weight"] for n in "qkv"))
        self.output = Linear(weights["o_proj.weight"])
        self.q_norm, self.k_norm = weights["q_norm.weight"], weights["k_norm.weight"]
        blocks = -(-max_tokens // BLOCK)
        self.keys = torch.zeros(blocks, BLOCK, c.kv_heads, c.head_dim)
        self.values = torch.zeros_like(self.keys)

    def __call__(self, x: Tensor, at: Where) -> Tensor:
        c, kv = self.c, self.c.kv_heads * self.c.head_dim
        qkv = self.qkv(x)
        parts = (qkv[:, : -2 * kv], qkv[:, -2 * kv : -kv], qkv[:, -kv:])
        q, k, v = (part.reshape(x.shape[0], -1, c.head_dim) for part in parts)
        anyop.qk_norm_rope(q, k, self.q_norm, self.k_norm, at.positions, at.cos_sin, c.eps)
        anyop.reshape_and_cache(k, v, self.keys, self.values, at.slots)
        y, _ = anyop.paged_attention(q, self.keys, self.values, at.table, at.lens, at.starts)
        return self.output(y.reshape(x.shape[0], c.heads * c.head_dim))


class Experts:
    """The router's choices of each token, and their feed-forward layers."""

    def __init__(self, c: Config, weights: Mapping[str, Tensor]) -> None:
        self.c, self.router = c, weights["gate.weight"]
        # Packed once: a step then reads little but the weights of the experts in use.
        self.gate_up = anyop.pack_weight(weights["experts.gate_up_proj"])
        self.down = anyop.pack_weight(weights["experts.down_proj"])

    def __call__(self, x: Tensor) -> Tensor:
        c = self.c
        weights, ids = anyop.topk_router(anyop.linear(x, self.router), c.top, "softmax", True)
        return anyop.fused_moe_packed(x, self.gate_up, self.down, c.expert_width, weights, ids)


@dataclass
class Where:
    """Where the tokens of a step are."""

    positions: Tensor
    starts: Tensor
    lens: Tensor
    slots: Tensor
    table: Tensor
    cos_sin: Tensor


class Decoder:
    """One sequence. `weights` have the names of transformers' Qwen3MoeForCausalLM."""

    def __init__(self, c: Config, weights: Mapping[str, Tensor], max_tokens: int = 64) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {n[len(prefix) :]: w for n, w in weights.items() if n.startswith(prefix)}

        self.c = c
        layers = [part(f"model.layers.{i}.") for i in range(c.layers)]
        self.norms = [
            (w["input_layernorm.weight"], w["post_attention_layernorm.weight"]) for w in layers
        ]
        self.attentions = [
            Attention(c, part(f"model.layers.{i}.self_attn."), max_tokens) for i in range(c.layers)
        ]
        self.experts = [Experts(c, part(f"model.layers.{i}.mlp.")) for i in range(c.layers)]
        self.embedding = weights["model.embed_tokens.weight"]
        self.norm, self.head = weights["model.norm.weight"], Linear(weights["lm_head.weight"])
        blocks = -(-max_tokens // BLOCK)
        self.table = torch.arange(blocks, dtype=torch.int32)[None]
        self.cos_sin = torch.from_numpy(
            anyop.rotary_cache(max_tokens, c.head_dim, base=c.rope_base)
        )

    def step(self, ids: Tensor, positions: Tensor, starts: Tensor, lens: Tensor) -> Tensor:
        """The logits [1, vocab] after the last of the tokens ids[t]."""
        c = self.c
        slots = anyop.compute_slot_mapping(starts, positions, self.table, BLOCK)
        at = Where(positions, starts, lens, slots, self.table, self.cos_sin)
        x = anyop.embedding(ids, self.embedding)
        for (before, after), attention, experts in zip(
            self.norms, self.attentions, self.experts, strict=True
        ):
            x = anyop.add(x, attention(anyop.rms_norm(x, before, c.eps), at))
            x = anyop.add(x, experts(anyop.rms_norm(x, after, c.eps)))
        return self.head(anyop.rms_norm(x[-1:], self.norm, c.eps))


def greedy(step: Any, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens after the prompt, one after another."""
    out: list[int] = []
    ids, start = prompt, 0
    while len(out) < count:
        end = start + len(ids)
        logits = step(
            torch.tensor(ids),
            torch.arange(start, end),
            torch.tensor([0, len(ids)], dtype=torch.int32),
            torch.tensor([end], dtype=torch.int32),
        )
        out.append(int(logits.argmax()))
        ids, start = out[-1:], end
    return out
