# SPDX-License-Identifier: Apache-2.0
"""Trains the tiny model with dense attention, through anyop's operators and their gradients."""

from __future__ import annotations

import anyop
import torch
from torch import Tensor

from .model import Config, Layer, Model


def attention(c: Config, layer: Layer, x: Tensor, cos_sin: Tensor) -> Tensor:
    """x [t, hidden] of one sequence."""
    t = len(x)
    positions = torch.arange(t)
    q = anyop.rms_norm(anyop.linear(x, layer.q_down), layer.q_norm, c.eps)
    q = anyop.linear(q, layer.q_up).reshape(t, c.heads, c.head)
    q_rope = anyop.rope(q[..., c.nope :].contiguous(), positions, cos_sin, 0, "gptj")
    kv = anyop.linear(x, layer.kv_down)
    latents = anyop.rms_norm(kv[:, : c.latent], layer.kv_norm, c.eps)
    k_rope = anyop.rope(kv[:, None, c.latent :].contiguous(), positions, cos_sin, 0, "gptj")
    k_nope = anyop.linear(latents, layer.k_up.flatten(0, 1)).reshape(t, c.heads, c.nope)
    v = anyop.linear(latents, layer.v_up.flatten(0, 1)).reshape(t, c.heads, c.value)
    q = torch.cat([q[..., : c.nope], q_rope], -1)
    k = torch.cat([k_nope, k_rope.expand(t, c.heads, c.rope)], -1)
    one = torch.tensor([0, t], dtype=torch.int32)  # sequence
    y, _ = anyop.attention(q, k, v, one, one, c.scale)
    return anyop.linear(y.reshape(t, -1), layer.output)


def experts(c: Config, layer: Layer, x: Tensor) -> Tensor:
    weights, ids = anyop.topk_router(
        anyop.linear(x, layer.router), c.top, "sigmoid", True, layer.bias,
        c.groups, c.top_groups, 0, c.scaling,
    )  # fmt: skip
    rows, offsets, _, destination = anyop.moe_permute(x, ids, c.experts)
    rows = anyop.silu_and_mul(anyop.grouped_linear(rows, layer.gate_up, offsets))
    rows = anyop.grouped_linear(rows, layer.down, offsets)
    shared = anyop.silu_and_mul(anyop.linear(x, layer.shared_gate_up))
    return anyop.moe_unpermute(rows, destination, weights) + anyop.linear(shared, layer.shared_down)


def logits(model: Model, ids: Tensor, cos_sin: Tensor) -> Tensor:
    """[t, vocab] of the tokens ids[t]."""
    c = model.c
    x = anyop.embedding(ids, model.embedding)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        x = x + attention(c, layer, anyop.rms_norm(x, layer.attention_norm, c.eps), cos_sin)
        x = x + experts(c, layer, anyop.rms_norm(x, layer.experts_norm, c.eps))
    return anyop.linear(anyop.rms_norm(x, model.norm, c.eps), model.head)


def angles(c: Config, length: int) -> Tensor:
    return torch.from_numpy(anyop.rotary_cache(length, c.rope))


def sequence(c: Config, start: int, length: int) -> Tensor:
    """A token depends on the two before it, so that attention has something to learn."""
    ids = [start % c.vocab, start * 7 % c.vocab]
    while len(ids) < length:
        ids.append((ids[-1] * 3 + ids[-2] + 1) % c.vocab)
    return torch.tensor(ids)


def train(model: Model, steps: int, length: int = 32) -> list[float]:
    """The losses of the steps, one sequence each."""
    cos_sin = angles(model.c, length)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for step in range(steps):
        ids = sequence(model.c, step * 11 + 1, length + 1)
        loss = torch.nn.functional.cross_entropy(logits(model, ids[:-1], cos_sin), ids[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
