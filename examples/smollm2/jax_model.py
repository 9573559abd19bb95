# SPDX-License-Identifier: Apache-2.0
"""The decoder over JAX's arrays: a step is one program, compiled once for each number of tokens.

What operators write comes back from them. The caches are donated to the step, which returns them,
so that a step writes a few rows and copies nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .layers import Layer, Linear, Mixed, Table
from .model import BLOCK, Fresh, Model
from .weights import ModelFile

Caches = list[tuple[Any, Any]]  # keys and values of each layer

jax.tree_util.register_dataclass(Linear, ["packed"], ["features", "format", "in_rows"])
jax.tree_util.register_dataclass(Mixed, ["parts"], [])
jax.tree_util.register_dataclass(Table, ["rows"], ["format", "dtype"])
jax.tree_util.register_dataclass(
    Layer,
    ["attn_norm", "qkv", "output", "ffn_norm", "gate_up", "down", "key_cache", "value_cache"],
    [],
)


class JaxModel(Model):
    """One sequence at a time. Weights are arguments of the program: it holds none as constants."""

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048,
        cache: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(file, dtype, max_tokens, host="jax", cache=cache)
        self.caches: Caches = [(layer.key_cache, layer.value_cache) for layer in self.layers]
        layers = [replace(layer, key_cache=None, value_cache=None) for layer in self.layers]
        self.layers = []  # a step ends the arrays that it is given
        self._weights = (
            layers, self.embedding, self.norm, self.quantized_head or self.head, self.cos_sin,
            self.block_table,
        )  # fmt: skip
        self._step = jax.jit(self._stepped, donate_argnums=0, static_argnums=4)

    def forward(self, ids: Any, all_logits: bool = False) -> Any:
        """Appends the tokens ids[t] to the sequence. Returns logits [1, vocab], or [t, vocab]."""
        start = self.length
        if start + len(ids) > self.max_tokens:
            raise ValueError(
                f"The sequence would be {start + len(ids)} tokens long, but the cache holds "
                f"{self.max_tokens}. Try a larger max_tokens."
            )
        tokens = jnp.asarray(np.asarray(ids, np.int32))
        at = np.int32(start)
        logits, self.caches = self._step(self.caches, self._weights, tokens, at, all_logits)
        self.length = start + len(ids)
        return logits

    def _stepped(
        self, caches: Caches, weights: Any, ids: Any, start: Any, all_logits: bool
    ) -> tuple[Any, Caches]:
        o, c = self.ops, self.config
        layers, embedding, last_norm, head, cos_sin, table = weights
        t = len(ids)
        positions = start + jnp.arange(t, dtype=jnp.int32)
        starts, lens = jnp.asarray([0, t], jnp.int32), (start + t)[None]
        slots = o.compute_slot_mapping(starts, positions, table, BLOCK)
        hidden = embedding(o, ids)
        normed = o.rms_norm(hidden, layers[0].attn_norm, c.eps)
        norms = [*(layer.attn_norm for layer in layers[1:]), last_norm]
        fresh, written = Fresh(self), []
        for layer, norm, (keys, values) in zip(layers, norms, caches, strict=True):
            q, k, v = fresh.heads(layer.qkv(o, normed))
            q, k = o.rotary_embedding(positions, q, k, cos_sin, 0, "gptj")
            keys, values = o.reshape_and_cache(k, v, keys, values, slots)
            written.append((keys, values))
            attended, _ = o.paged_attention(q, keys, values, table, lens, starts)
            delta = layer.output(o, fresh.rows(attended))
            normed, hidden = o.add_rms_norm(delta, hidden, layer.ffn_norm, c.eps)
            delta = layer.down(o, o.silu_and_mul(layer.gate_up(o, normed)))
            normed, hidden = o.add_rms_norm(delta, hidden, norm, c.eps)
        rows = normed if all_logits else normed[-1:]
        if isinstance(head, Linear):
            return head(o, o.cast(rows, "f32")), written
        return o.linear(rows, head, output="f32"), written
