# SPDX-License-Identifier: Apache-2.0
"""Decodes a token at a time over caches of latents: dense, or over what the indexer selects."""

from __future__ import annotations

from typing import Any

import anyop
import torch
from torch import Tensor

from .model import Config, Layer, Model
from .train import angles

BLOCK = 16  # tokens of a cache block
# The token, its position, where sequences begin, the length with this token.
TYPES = ("i64[1]", "i64[1]", "i32[2]", "i32[1]")


class LayerCache:
    """What is kept of each token: its latent, its rotated key, the indexer's key."""

    def __init__(self, c: Config, blocks: int) -> None:
        self.latents = torch.zeros(blocks, BLOCK, c.latent)
        self.ropes = torch.zeros(blocks, BLOCK, c.rope)
        self.index_keys = torch.zeros(blocks, BLOCK, c.index_width)


class Decoder:
    """One sequence. top: how many keys a token attends to; None: dense attention."""

    def __init__(self, model: Model, top: int | None, max_tokens: int = 64) -> None:
        self.model, self.top, c = model, top, model.c
        self.blocks = -(-max_tokens // BLOCK)
        self.caches = [LayerCache(c, self.blocks) for _ in range(c.layers)]
        self.table = torch.arange(self.blocks, dtype=torch.int32)[None]
        self.cos_sin = angles(c, max_tokens)
        self.packed = [
            (anyop.pack_weight(layer.gate_up), anyop.pack_weight(layer.down))
            for layer in model.layers
        ]

    def attention(self, i: int, x: Tensor, positions: Tensor, starts: Tensor, lens: Tensor) -> Any:
        """x [1, hidden]."""
        c, layer = self.model.c, self.model.layers[i]
        slots = anyop.compute_slot_mapping(starts, positions, self.table, BLOCK)
        attend = self.dense if self.top is None else self.sparse
        y = attend(layer, self.caches[i], x, positions, slots, starts, lens)
        y = anyop.batch_matmul(y.reshape(c.heads, 1, c.latent), layer.v_up, "nt")
        return anyop.linear(y.reshape(1, c.heads * c.value), layer.output)

    def dense(
        self, layer: Layer, cache: LayerCache, x: Tensor, positions: Tensor, slots: Tensor,
        starts: Tensor, lens: Tensor,
    ) -> Tensor:  # fmt: skip
        """The latents [1, heads, latent] that the heads attend to, of all keys."""
        c = self.model.c
        q_latent = anyop.rms_norm(anyop.linear(x, layer.q_down), layer.q_norm, c.eps)
        q = anyop.linear(q_latent, layer.q_up)
        q_rope = q.reshape(1, c.heads, c.head)[:, :, c.nope :]
        q_rope = anyop.rope(q_rope, positions, self.cos_sin, 0, "gptj")
        kv = anyop.linear(x, layer.kv_down)
        latent = anyop.rms_norm(kv[:, : c.latent], layer.kv_norm, c.eps).reshape(1, 1, c.latent)
        k_rope = kv[:, c.latent :].reshape(1, 1, c.rope)
        k_rope = anyop.rope(k_rope, positions, self.cos_sin, 0, "gptj")
        latents = cache.latents.reshape(self.blocks, BLOCK, 1, c.latent)
        ropes = cache.ropes.reshape(self.blocks, BLOCK, 1, c.rope)
        anyop.reshape_and_cache(latent, k_rope, latents, ropes, slots)
        # The keys' matrix is absorbed by the query: scores are taken against latents.
        q_nope = q.reshape(c.heads, 1, c.head)[:, :, : c.nope]
        absorbed = anyop.batch_matmul(q_nope, layer.k_up).reshape(1, c.heads, c.latent)
        y, _ = anyop.mla_decode(
            absorbed, q_rope, cache.latents, cache.ropes, self.table, lens, starts, c.scale
        )
        return y

    def sparse(
        self, layer: Layer, cache: LayerCache, x: Tensor, positions: Tensor, slots: Tensor,
        starts: Tensor, lens: Tensor,
    ) -> Tensor:  # fmt: skip
        """The same, of the `top` keys that the indexer chooses."""
        c = self.model.c
        return anyop.sparse_mla_decode_step(
            x, positions, slots, self.table, lens, starts, self.cos_sin,
            layer.q_down, layer.q_norm, layer.q_up, layer.kv_down, layer.kv_norm, layer.k_up,
            layer.index_q, layer.index_k, layer.index_norm, layer.index_bias, layer.index_weights,
            cache.latents, cache.ropes, cache.index_keys, self.top, c.scale, c.eps,
        )  # fmt: skip

    def experts(self, i: int, x: Tensor) -> Any:
        c, layer = self.model.c, self.model.layers[i]
        weights, ids = anyop.topk_router(
            anyop.linear(x, layer.router), c.top, "sigmoid", True, layer.bias,
            c.groups, c.top_groups, 0, c.scaling,
        )  # fmt: skip
        y = anyop.fused_moe_packed(x, *self.packed[i], c.expert_width, weights, ids)
        shared = anyop.silu_and_mul(anyop.linear(x, layer.shared_gate_up))
        return anyop.add(y, anyop.linear(shared, layer.shared_down))

    def step(self, ids: Tensor, positions: Tensor, starts: Tensor, lens: Tensor) -> Any:
        """The logits [1, vocab] after the token ids[1]."""
        c = self.model.c
        x = anyop.embedding(ids, self.model.embedding)
        for i, layer in enumerate(self.model.layers):
            normed = anyop.rms_norm(x, layer.attention_norm, c.eps)
            x = anyop.add(x, self.attention(i, normed, positions, starts, lens))
            x = anyop.add(x, self.experts(i, anyop.rms_norm(x, layer.experts_norm, c.eps)))
        return anyop.linear(anyop.rms_norm(x, self.model.norm, c.eps), self.model.head)


def greedy(step: Any, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens after the prompt, one after another."""
    starts = torch.tensor([0, 1], dtype=torch.int32)
    ids = list(prompt)
    for at in range(len(prompt) + count - 1):
        lens = torch.tensor([at + 1], dtype=torch.int32)
        found = step(torch.tensor(ids[at : at + 1]), torch.tensor([at]), starts, lens)
        if at + 1 == len(ids):
            ids.append(int(found.argmax()))
    return ids[len(prompt) :]
