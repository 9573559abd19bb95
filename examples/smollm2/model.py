# SPDX-License-Identifier: Apache-2.0
"""A Llama decoder on anyop's operators, with a paged key/value cache, from NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyop
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .weights import ModelFile

Array = NDArray[Any]
DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
BLOCK = 16  # tokens of a cache block


@dataclass
class Linear:
    packed: Array
    features: int


@dataclass
class Layer:
    attn_norm: Array
    qkv: Linear
    output: Linear
    ffn_norm: Array
    gate_up: Linear
    down: Linear
    key_cache: Array  # [blocks, BLOCK, kv_heads, head_dim]
    value_cache: Array


class Scratch:
    """The activations of a step of t tokens, made once per t and written in place."""

    def __init__(self, model: Model, t: int) -> None:
        c, dtype = model.config, model.dtype
        d, kv = c.hidden, c.kv_heads * c.head_dim
        self.hidden = np.empty((t, d), dtype)
        self.normed = np.empty((t, d), dtype)
        self.qkv = np.empty((t, d + 2 * kv), dtype)
        self.q = self.qkv[:, :d].reshape(t, c.heads, c.head_dim)
        self.k = self.qkv[:, d : d + kv].reshape(t, c.kv_heads, c.head_dim)
        self.v = self.qkv[:, d + kv :].reshape(t, c.kv_heads, c.head_dim)
        self.attended = np.empty((t, c.heads, c.head_dim), dtype)
        self.attended2d = self.attended.reshape(t, d)
        self.delta = np.empty((t, d), dtype)
        self.gate_up = np.empty((t, 2 * c.ffn), dtype)
        self.act = np.empty((t, c.ffn), dtype)
        self.lse = np.empty((c.heads, 0), np.float32)


class Model:
    """One sequence at a time; `ops` is where the operators come from (anyop, or a profiler)."""

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048, ops: Any = anyop
    ) -> None:
        c = self.config = file.config
        self.ops, self.dtype = ops, DTYPES[dtype]
        self.max_tokens = min(max_tokens, c.context)
        blocks = -(-self.max_tokens // BLOCK)
        w = file.tensors

        def cast(name: str) -> Array:
            return w[name].astype(self.dtype)

        def pack(*names: str) -> Linear:
            weight = np.concatenate([w[n] for n in names]).astype(self.dtype)
            return Linear(anyop.pack_weight(weight), len(weight))

        def cache() -> Array:
            return np.zeros((blocks, BLOCK, c.kv_heads, c.head_dim), self.dtype)

        def layer(i: int) -> Layer:
            p = f"blk.{i}."
            return Layer(
                attn_norm=cast(p + "attn_norm.weight"),
                qkv=pack(p + "attn_q.weight", p + "attn_k.weight", p + "attn_v.weight"),
                output=pack(p + "attn_output.weight"),
                ffn_norm=cast(p + "ffn_norm.weight"),
                gate_up=pack(p + "ffn_gate.weight", p + "ffn_up.weight"),
                down=pack(p + "ffn_down.weight"),
                key_cache=cache(),
                value_cache=cache(),
            )

        self.embedding = cast("token_embd.weight")
        tied = "output.weight" not in w
        self.head = self.embedding if tied else cast("output.weight")
        self.norm = cast("output_norm.weight")
        self.layers = [layer(i) for i in range(c.layers)]
        self.cos_sin = anyop.rotary_cache(self.max_tokens, c.head_dim, base=c.rope_base)
        # A real server hands out blocks as sequences come and go; one sequence owns them in order.
        self.block_table = np.arange(blocks, dtype=np.int32)[None]
        self.length = 0
        self._scratch: dict[int, Scratch] = {}

    def reset(self) -> None:
        self.length = 0

    def forward(self, ids: Array, all_logits: bool = False) -> Array:
        """Appends the tokens ids[t] to the sequence. Returns logits [1, vocab], or [t, vocab]."""
        t, start = len(ids), self.length
        if start + t > self.max_tokens:
            raise ValueError(
                f"The sequence would be {start + t} tokens long, but the cache holds "
                f"{self.max_tokens}. Try a larger max_tokens."
            )
        o, c = self.ops, self.config
        s = self._scratch.get(t) or self._scratch.setdefault(t, Scratch(self, t))
        positions = np.arange(start, start + t, dtype=np.int64)
        starts = np.array([0, t], np.int32)
        seq_lens = np.array([start + t], np.int32)
        slots = o.compute_slot_mapping(starts, positions, self.block_table, BLOCK)
        o.embedding(ids, self.embedding, out=s.hidden)
        o.rms_norm(s.hidden, self.layers[0].attn_norm, c.eps, out=s.normed)
        for i, layer in enumerate(self.layers):
            o.linear_packed(s.normed, layer.qkv.packed, layer.qkv.features, out=s.qkv)
            o.rotary_embedding(positions, s.q, s.k, self.cos_sin, 0, "gptj")
            o.reshape_and_cache(s.k, s.v, layer.key_cache, layer.value_cache, slots)
            o.paged_attention(
                s.q, layer.key_cache, layer.value_cache, self.block_table, seq_lens, starts,
                out=(s.attended, s.lse),
            )  # fmt: skip
            o.linear_packed(s.attended2d, layer.output.packed, layer.output.features, out=s.delta)
            o.add_rms_norm(s.delta, s.hidden, layer.ffn_norm, c.eps, out=(s.normed, s.hidden))
            o.linear_packed(s.normed, layer.gate_up.packed, layer.gate_up.features, out=s.gate_up)
            o.silu_and_mul(s.gate_up, out=s.act)
            o.linear_packed(s.act, layer.down.packed, layer.down.features, out=s.delta)
            last = i + 1 == c.layers
            norm = self.norm if last else self.layers[i + 1].attn_norm
            o.add_rms_norm(s.delta, s.hidden, norm, c.eps, out=(s.normed, s.hidden))
        self.length = start + t
        rows = s.normed if all_logits else s.normed[-1:]
        # In float32: bf16 has 8 bits, and the best tokens would tie.
        logits: Array = o.linear(rows, self.head, output="f32")
        return logits
