# SPDX-License-Identifier: Apache-2.0
"""A Llama decoder on anyop's operators, with a paged key/value cache, over any host's tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import anyop
import numpy as np

from .hosts import HOSTS
from .weights import ModelFile

Array = Any  # of the host: numpy.ndarray or torch.Tensor
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


class Fresh:
    """Results are new tensors, as a compiler wants it: it plans their memory itself."""

    hidden: Array = None
    normed: Array = None
    added: Array = None  # of add_rms_norm: what is normed and hidden then
    qkv: Array = None
    attended: Array = None
    delta: Array = None
    gate_up: Array = None
    act: Array = None

    def __init__(self, model: Model) -> None:
        self.c = model.config

    def heads(self, qkv: Array) -> list[Array]:
        """Views of queries, keys and values [t, heads, head_dim]."""
        c, kv = self.c, self.c.kv_heads * self.c.head_dim
        parts = (qkv[:, : -2 * kv], qkv[:, -2 * kv : -kv], qkv[:, -kv:])
        return [part.reshape(qkv.shape[0], -1, c.head_dim) for part in parts]

    def rows(self, attended: Array) -> Array:
        return attended.reshape(-1, self.c.hidden)


class Scratch(Fresh):
    """The activations of a step of t tokens, made once per t and written in place."""

    def __init__(self, model: Model, t: int) -> None:
        super().__init__(model)
        c = self.c

        def empty(*shape: int) -> Array:
            return model.host.empty((t, *shape), model.dtype)

        self.hidden, self.normed, self.delta = empty(c.hidden), empty(c.hidden), empty(c.hidden)
        self.added = (self.normed, self.hidden)
        self.qkv = empty(c.hidden + 2 * c.kv_heads * c.head_dim)
        self.views = super().heads(self.qkv)
        self.attended = (empty(c.heads, c.head_dim), model.host.empty((c.heads, 0), "f32"))
        self.attended_rows = super().rows(self.attended[0])
        self.gate_up, self.act = empty(2 * c.ffn), empty(c.ffn)

    def heads(self, qkv: Array) -> list[Array]:
        return self.views

    def rows(self, attended: Array) -> Array:
        return self.attended_rows


class Model:
    """One sequence at a time; `ops` is where the operators come from (anyop, or a profiler).

    host: 'numpy' or 'torch'. compiled: decode steps are one graph of the host's compiler.
    captured: all steps are one graph of anyop's, for any number of tokens.
    """

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048, ops: Any = anyop,
        host: str = "numpy", compiled: bool = False, captured: bool = False,
    ) -> None:  # fmt: skip
        c = self.config = file.config
        self.ops, self.dtype, self.host = ops, dtype, HOSTS[host]()
        self.max_tokens = min(max_tokens, c.context)
        blocks = -(-self.max_tokens // BLOCK)
        w = file.tensors

        def cast(name: str) -> Array:
            return self.host.tensor(w[name], dtype)

        def pack(*names: str) -> Linear:
            weight = self.host.tensor(np.concatenate([w[n] for n in names]), dtype)
            return Linear(anyop.pack_weight(weight), len(weight))

        def cache() -> Array:
            return self.host.tensor(np.zeros((blocks, BLOCK, c.kv_heads, c.head_dim)), dtype)

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
        angles = anyop.rotary_cache(self.max_tokens, c.head_dim, base=c.rope_base)
        self.cos_sin = self.host.tensor(angles)
        # A real server hands out blocks as sequences come and go; one sequence owns them in order.
        self.block_table = self.host.tensor(np.arange(blocks, dtype=np.int32)[None])
        self.length = 0
        self._scratch: dict[int, Scratch] = {}
        self._decode = self.host.compile(self._run) if compiled else None
        step = partial(self._run, Fresh(self))
        types = ("i64[t]", "i64[t]", "i32[2]", "i32[1]")
        self.graph = anyop.graph(step, *types, name="step") if captured else None

    def reset(self) -> None:
        self.length = 0

    def forward(self, ids: Any, all_logits: bool = False) -> Array:
        """Appends the tokens ids[t] to the sequence. Returns logits [1, vocab], or [t, vocab]."""
        t, start = len(ids), self.length
        if start + t > self.max_tokens:
            raise ValueError(
                f"The sequence would be {start + t} tokens long, but the cache holds "
                f"{self.max_tokens}. Try a larger max_tokens."
            )
        tensor = self.host.tensor
        where = (
            tensor(np.asarray(ids, np.int64)),
            tensor(np.arange(start, start + t)),
            tensor(np.array([0, t], np.int32)),
            tensor(np.array([start + t], np.int32)),
        )
        if self.graph and not all_logits:
            logits = self.graph(*where)
        elif self._decode and t == 1:
            logits = self._decode(Fresh(self), *where)
        else:
            s = self._scratch.get(t) or self._scratch.setdefault(t, Scratch(self, t))
            logits = self._run(s, *where, all_logits)
        self.length = start + t
        return logits

    def _run(
        self, s: Fresh, ids: Array, positions: Array, starts: Array, seq_lens: Array,
        all_logits: bool = False,
    ) -> Array:  # fmt: skip
        o, c = self.ops, self.config
        slots = o.compute_slot_mapping(starts, positions, self.block_table, BLOCK)
        hidden = o.embedding(ids, self.embedding, out=s.hidden)
        normed = o.rms_norm(hidden, self.layers[0].attn_norm, c.eps, out=s.normed)
        for i, layer in enumerate(self.layers):
            qkv = o.linear_packed(normed, layer.qkv.packed, layer.qkv.features, out=s.qkv)
            q, k, v = s.heads(qkv)
            o.rotary_embedding(positions, q, k, self.cos_sin, 0, "gptj")
            o.reshape_and_cache(k, v, layer.key_cache, layer.value_cache, slots)
            attended, _ = o.paged_attention(
                q, layer.key_cache, layer.value_cache, self.block_table, seq_lens, starts,
                out=s.attended,
            )  # fmt: skip
            rows = s.rows(attended)
            delta = o.linear_packed(rows, layer.output.packed, layer.output.features, out=s.delta)
            normed, hidden = o.add_rms_norm(delta, hidden, layer.ffn_norm, c.eps, out=s.added)
            gate_up = o.linear_packed(
                normed, layer.gate_up.packed, layer.gate_up.features, out=s.gate_up
            )
            act = o.silu_and_mul(gate_up, out=s.act)
            delta = o.linear_packed(act, layer.down.packed, layer.down.features, out=s.delta)
            norm = self.norm if layer is self.layers[-1] else self.layers[i + 1].attn_norm
            normed, hidden = o.add_rms_norm(delta, hidden, norm, c.eps, out=s.added)
        # In float32: bf16 has 8 bits, and the best tokens would tie.
        return o.linear(normed if all_logits else normed[-1:], self.head, output="f32")
