# SPDX-License-Identifier: Apache-2.0
"""A Llama decoder on anyop's operators, with a paged key/value cache, over any host's tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyop
import numpy as np

from .hosts import HOSTS
from .layers import Arranged, Layer
from .weights import ModelFile

Array = Any  # of the host: numpy.ndarray or torch.Tensor
BLOCK = 16  # tokens of a cache block


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

    def heads(self, qkv: Any) -> list[Array]:
        """Views of queries, keys and values [t, heads, head_dim]; qkv may be these three."""
        c, kv = self.c, self.c.kv_heads
        if isinstance(qkv, list):
            return [part.reshape(part.shape[0], -1, c.head_dim) for part in qkv]
        heads = qkv.reshape(qkv.shape[0], -1, c.head_dim)
        return [heads[:, : -2 * kv], heads[:, -2 * kv : -kv], heads[:, -kv:]]

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
    """One sequence at a time, or several by `step`; `ops`: where operators come from.

    host: 'numpy' or 'torch'. compiled: decode steps are one graph of the host's compiler; a str
    names torch.compile's backend.
    captured: all steps are one graph of anyop's, for any number of tokens.
    dtype: "f32", "bf16", or "q4": the file's blocks, packed ("q4-rows": as they lie).
    cache: what keys and values are stored as, "f32", "bf16" or "f8e4m3"; None: as activations.
    cache_tokens: how many tokens all sequences together may have; None: max_tokens.
    """

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048, ops: Any = anyop,
        host: str = "numpy", compiled: bool | str = False, captured: bool = False,
        cache: str | None = None, cache_tokens: int | None = None,
    ) -> None:  # fmt: skip
        c = self.config = file.config
        self.ops, self.host = ops, HOSTS[host]()
        w = Arranged(file, self.host, dtype)
        self.dtype = w.dtype
        self.max_tokens = min(max_tokens, c.context)
        blocks = -(-self.max_tokens // BLOCK)
        self.cache_blocks = -(-(cache_tokens or self.max_tokens) // BLOCK)
        stored = cache or w.dtype
        if w.dtype != stored and stored not in ("i8", "f8e4m3"):
            raise ValueError(f"A cache of {stored} is for activations of {stored}, not {w.dtype}.")

        def empty_cache() -> Array:
            shape = (self.cache_blocks, BLOCK, c.kv_heads, c.head_dim)
            return self.host.tensor(np.zeros(shape, np.float32), stored)

        def layer(i: int) -> Layer:
            p = f"blk.{i}."
            return Layer(
                attn_norm=w.tensor(p + "attn_norm.weight"),
                qkv=w.mixed(p + "attn_q.weight", p + "attn_k.weight", p + "attn_v.weight"),
                output=w.linear(p + "attn_output.weight"),
                ffn_norm=w.tensor(p + "ffn_norm.weight"),
                gate_up=w.linear(p + "ffn_gate.weight", p + "ffn_up.weight"),
                down=w.linear(p + "ffn_down.weight"),
                key_cache=empty_cache(),
                value_cache=empty_cache(),
            )

        self.embedding = w.table("token_embd.weight")
        head = "output.weight" if "output.weight" in file.tensors else "token_embd.weight"
        self.quantized_head = w.linear(head) if w.quantized else None
        if self.quantized_head:
            self.head = self.quantized_head.packed
        else:
            self.head = self.embedding.rows if head == "token_embd.weight" else w.tensor(head)
        # Packed, one row takes 0.8 of the time, and many take more: for a sequence alone.
        is_packed = w.dtype == "bf16" and not w.quantized and host in ("numpy", "torch")
        self.packed_head = anyop.pack_weight(self.head) if is_packed else None
        self.norm = w.tensor("output_norm.weight")
        self.layers = [layer(i) for i in range(c.layers)]
        rescale = {}
        if c.rope_rescale:
            ones = {"max_position": 1, "original_max_position": 1}
            rescale = {"kind": "longrope", "rescale": list(c.rope_rescale), **ones}
        angles = anyop.rotary_cache(self.max_tokens, c.head_dim, base=c.rope_base, **rescale)
        self.cos_sin = self.host.tensor(angles)
        # One sequence owns the blocks in order; a batch hands them out (batch.py).
        self.block_table = self.host.tensor(np.arange(blocks, dtype=np.int32)[None])
        file.release()
        self.length = 0
        self._scratch: dict[int, Scratch] = {}
        backend = compiled if isinstance(compiled, str) else "inductor"
        self._decode = self.host.compile(self._run, backend) if compiled else None
        step = partial(self._run, Fresh(self))
        types = ("i64[t]", "i64[t]", "i32[2]", "i32[1]")
        self.captured = captured
        self.graph = anyop.graph(step, *types, name="step") if captured else None
        self._batch_graph: Any = None

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

    def step(self, *where: Any) -> Array:
        """Appends tokens to several sequences: ids i64[t] and their positions, end to end.

        starts [b+1]: where each sequence's tokens begin; seq_lens [b]: its length after them;
        block_table [b, blocks of max_tokens]; last [n]: the tokens whose logits [n, vocab] come.
        """

        def run(ids: Any, positions: Any, starts: Any, lens: Any, table: Any, last: Any) -> Any:
            fresh = Fresh(self)
            return self._run(fresh, ids, positions, starts, lens, block_table=table, last=last)

        tensors = [self.host.tensor(x) for x in where]
        if not self.captured:
            return run(*tensors)
        if self._batch_graph is None:
            blocks = self.block_table.shape[1]
            types = ("i64[t]", "i64[t]", "i32[b+1]", "i32[b]", f"i32[b, {blocks}]", "i64[n]")
            self._batch_graph = anyop.graph(run, *types, name="step")
        return self._batch_graph(*tensors)

    def _run(
        self, s: Fresh, ids: Array, positions: Array, starts: Array, seq_lens: Array,
        all_logits: bool = False, *, block_table: Array = None, last: Array = None,
    ) -> Array:  # fmt: skip
        o, c = self.ops, self.config
        table = self.block_table if block_table is None else block_table
        slots = o.compute_slot_mapping(starts, positions, table, BLOCK)
        hidden = self.embedding(o, ids, s.hidden)
        normed = o.rms_norm(hidden, self.layers[0].attn_norm, c.eps, out=s.normed)
        for i, layer in enumerate(self.layers):
            qkv = layer.qkv(o, normed, s.qkv)
            q, k, v = s.heads(qkv)
            o.rotary_embedding(positions, q, k, self.cos_sin, 0, "gptj")
            o.reshape_and_cache(k, v, layer.key_cache, layer.value_cache, slots)
            attended, _ = o.paged_attention(
                q, layer.key_cache, layer.value_cache, table, seq_lens, starts,
                out=s.attended,
            )  # fmt: skip
            rows = s.rows(attended)
            delta = layer.output(o, rows, s.delta)
            normed, hidden = o.add_rms_norm(delta, hidden, layer.ffn_norm, c.eps, out=s.added)
            gate_up = layer.gate_up(o, normed, s.gate_up)
            act = o.silu_and_mul(gate_up, out=s.act)
            delta = layer.down(o, act, s.delta)
            norm = self.norm if layer is self.layers[-1] else self.layers[i + 1].attn_norm
            normed, hidden = o.add_rms_norm(delta, hidden, norm, c.eps, out=s.added)
        # In float32: bf16 has 8 bits, and the best tokens would tie.
        if last is not None:
            rows = o.embedding(last, normed)
        else:
            rows = normed if all_logits else normed[-1:]
        if self.quantized_head:
            return self.quantized_head(o, o.cast(rows, "f32"))
        if self.packed_head is not None and last is None and not all_logits:
            return o.linear_packed(rows, self.packed_head, c.vocab, output="f32")
        return o.linear(rows, self.head, output="f32")
