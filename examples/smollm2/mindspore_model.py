# SPDX-License-Identifier: Apache-2.0
"""The decoder as one compiled graph of MindSpore: a graph for one token, one for any number.

Weights and caches are Parameters of the graph; what operators write into the caches stays there. A
view in a graph is a copy: so queries and keys come back from `rope`, and are not written.
"""

from __future__ import annotations

from typing import Any

import anyop
import mindspore as ms
import numpy as np
from mindspore import Parameter, nn

from .layers import Linear
from .model import BLOCK, Model
from .weights import ModelFile


class LinearCell(nn.Cell):
    """A Linear, whose weight is a Parameter."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        self.packed = Parameter(linear.packed, name="packed", requires_grad=False)
        self.features, self.format = linear.features, linear.format
        self.in_rows = linear.in_rows

    def construct(self, x: Any) -> Any:
        if self.format == "":
            return anyop.linear_packed(x, self.packed, self.features)
        if self.in_rows:
            return anyop.linear_blocks(x, self.packed, None, "q8", self.format)
        return anyop.linear_blocks_packed(x, self.packed, self.features, None, self.format)


class LayerCell(nn.Cell):
    """A layer, which keeps the keys and values of every token."""

    def __init__(self, model: Model, i: int) -> None:
        super().__init__()
        layer, c = model.layers[i], model.config
        last = i + 1 == len(model.layers)
        norm = model.norm if last else model.layers[i + 1].attn_norm

        def kept(tensor: Any, name: str) -> Any:
            return Parameter(tensor, name=name, requires_grad=False)

        self.qkv, self.output = LinearCell(layer.qkv), LinearCell(layer.output)
        self.gate_up, self.down = LinearCell(layer.gate_up), LinearCell(layer.down)
        self.ffn_norm, self.norm = kept(layer.ffn_norm, "ffn_norm"), kept(norm, "norm")
        self.keys, self.values = kept(layer.key_cache, "keys"), kept(layer.value_cache, "values")
        self.eps, self.hidden, self.d, self.kv = c.eps, c.hidden, c.head_dim, c.kv_heads
        self.dtype = model.dtype

    def construct(self, normed: Any, hidden: Any, where: Any, cos_sin: Any) -> Any:
        positions, slots, table, lens, starts = where
        # MindSpore's graphs take no views of bf16 on the CPU: those are made of f32, exactly.
        qkv = anyop.cast(self.qkv(normed), "f32")
        heads = qkv.reshape((-1, self.hidden // self.d + 2 * self.kv, self.d))
        q = anyop.cast(heads[:, : -2 * self.kv], self.dtype)
        k = anyop.cast(heads[:, -2 * self.kv : -self.kv], self.dtype)
        v = anyop.cast(heads[:, -self.kv :], self.dtype)
        q = anyop.rope(q, positions, cos_sin, 0, "gptj")
        k = anyop.rope(k, positions, cos_sin, 0, "gptj")
        anyop.reshape_and_cache(k, v, self.keys, self.values, slots)
        attended, _ = anyop.paged_attention(q, self.keys, self.values, table, lens, starts)
        rows = anyop.cast(attended, "f32").reshape((-1, self.hidden))
        delta = self.output(anyop.cast(rows, self.dtype))
        normed, hidden = anyop.add_rms_norm(delta, hidden, self.ffn_norm, self.eps)
        delta = self.down(anyop.silu_and_mul(self.gate_up(normed)))
        return anyop.add_rms_norm(delta, hidden, self.norm, self.eps)


class Step(nn.Cell):
    """Appends tokens to the sequence. Returns the logits of the last one."""

    def __init__(self, model: Model) -> None:
        super().__init__()

        def kept(tensor: Any, name: str) -> Any:
            return Parameter(tensor, name=name, requires_grad=False)

        self.embedding = kept(model.embedding.rows, "embedding")
        self.table_format, self.dtype = model.embedding.format, model.dtype
        self.norm = kept(model.layers[0].attn_norm, "first_norm")
        self.cos_sin, self.table = kept(model.cos_sin, "cos_sin"), kept(model.block_table, "table")
        self.blocks = nn.CellList([LayerCell(model, i) for i in range(len(model.layers))])
        self.is_quantized = model.quantized_head is not None
        self.is_tied = not self.is_quantized and model.head is model.embedding.rows
        if self.is_quantized:
            self.quantized = LinearCell(model.quantized_head)
        elif not self.is_tied:
            self.head = kept(model.head, "head")
        self.eps = model.config.eps

    def construct(self, ids: Any, positions: Any, starts: Any, lens: Any, last: Any) -> Any:
        slots = anyop.compute_slot_mapping(starts, positions, self.table, BLOCK)
        if self.table_format == "":
            hidden = anyop.embedding(ids, self.embedding)
        else:
            hidden = anyop.embedding_blocks(ids, self.embedding, self.table_format, self.dtype)
        normed = anyop.rms_norm(hidden, self.norm, self.eps)
        for block in self.blocks:
            where = (positions, slots, self.table, lens, starts)
            normed, hidden = block(normed, hidden, where, self.cos_sin)
        rows = anyop.embedding(last, normed)
        if self.is_quantized:
            return self.quantized(anyop.cast(rows, "f32"))
        return anyop.linear(rows, self.embedding if self.is_tied else self.head, output="f32")


class MindSporeModel(Model):
    """One sequence at a time. Two graphs over the same Parameters: a step of one token, whose sizes
    MindSpore knows, and one of any number.
    """

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048,
        cache: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(file, dtype, max_tokens, host="mindspore", cache=cache)
        cell = Step(self)
        self.caches = [(block.keys, block.values) for block in cell.blocks]
        self._one, self._any_number = ms.jit(cell.construct), ms.jit(cell.construct, dynamic=1)

    def forward(self, ids: Any, all_logits: bool = False) -> Any:
        """Appends the tokens ids[t] to the sequence. Returns logits [1, vocab]."""
        t, start = len(ids), self.length
        if all_logits or start + t > self.max_tokens:
            return super().forward(ids, all_logits)  # which refuses, or runs in PyNative
        tensor = self.host.tensor
        step = self._one if t == 1 else self._any_number
        logits = step(
            tensor(np.asarray(ids, np.int64)),
            tensor(np.arange(start, start + t)),
            tensor(np.array([0, t], np.int32)),
            tensor(np.array([start + t], np.int32)),
            tensor(np.array([t - 1])),
        )
        self.length = start + t
        return logits
