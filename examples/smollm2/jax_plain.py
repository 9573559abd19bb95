# SPDX-License-Identifier: Apache-2.0
"""The same decoder in plain jax.numpy under jit: the opponent on that host.

Of the ways to write each step, the fastest measured: a step is one program whose caches are
donated, weights are merged, lie [out, in] and are arguments of the program, layers are unrolled,
and attention reads no more of the caches than the next multiple of `SPAN` tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .weights import Config, ModelFile

DTYPES: dict[str, Any] = {"f32": jnp.float32, "bf16": jnp.bfloat16}
SPAN = 128  # tokens: a program for each multiple, compiled when a sequence first gets there

Weights = dict[str, Any]
Caches = list[tuple[Any, Any]]  # keys and values of each layer, [max_tokens, kv_heads, head_dim]


class JaxPlainModel:
    """One sequence at a time."""

    def __init__(self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048) -> None:
        c = self.config = file.config
        self.max_tokens, self.length = max_tokens, 0
        kind = DTYPES[dtype]

        def tensor(*names: str) -> Any:
            return jnp.asarray(np.concatenate([file.tensors[f"{n}.weight"] for n in names]), kind)

        def layer(i: int) -> Weights:
            p = f"blk.{i}."
            return {
                "attn_norm": tensor(p + "attn_norm"),
                "qkv": tensor(p + "attn_q", p + "attn_k", p + "attn_v"),
                "output": tensor(p + "attn_output"),
                "ffn_norm": tensor(p + "ffn_norm"),
                "gate_up": tensor(p + "ffn_gate", p + "ffn_up"),
                "down": tensor(p + "ffn_down"),
            }

        embedding = tensor("token_embd")
        has_head = "output.weight" in file.tensors
        powers = -np.arange(0, c.head_dim, 2) / c.head_dim
        angle = np.arange(max_tokens)[:, None] * c.rope_base**powers
        self._weights: Weights = {
            "layers": [layer(i) for i in range(c.layers)],
            "embedding": embedding,
            "head": tensor("output") if has_head else embedding,
            "norm": tensor("output_norm"),
            "cos": jnp.asarray(np.cos(angle), jnp.float32),
            "sin": jnp.asarray(np.sin(angle), jnp.float32),
        }
        shape = (max_tokens, c.kv_heads, c.head_dim)
        self._caches: Caches = [
            (jnp.zeros(shape, kind), jnp.zeros(shape, kind)) for _ in range(c.layers)
        ]
        self._step = jax.jit(partial(_step, c), donate_argnums=0, static_argnums=4)

    def reset(self) -> None:
        self.length = 0

    def forward(self, ids: Any) -> Any:
        """Appends ids[t]; returns the last token's logits f32[1, vocab]."""
        tokens, start = jnp.asarray(np.asarray(ids, np.int32)), self.length
        self.length += len(tokens)
        span = min(-(-self.length // SPAN) * SPAN, self.max_tokens)
        logits, self._caches = self._step(
            self._caches, self._weights, tokens, np.int32(start), span
        )
        return logits


def _step(
    c: Config, caches: Caches, w: Weights, ids: Any, start: Any, span: int
) -> tuple[Any, Caches]:
    t = len(ids)
    cos = jax.lax.dynamic_slice_in_dim(w["cos"], start, t)[:, None]
    sin = jax.lax.dynamic_slice_in_dim(w["sin"], start, t)[:, None]
    x, written = w["embedding"][ids], []
    for layer, (keys, values) in zip(w["layers"], caches, strict=True):
        heads = _rms_norm(x, layer["attn_norm"], c.eps) @ layer["qkv"].T
        q, k, v = jnp.split(
            heads.reshape(t, -1, c.head_dim), (c.heads, c.heads + c.kv_heads), axis=1
        )
        keys = jax.lax.dynamic_update_slice_in_dim(keys, _rotate(k, cos, sin), start, 0)
        values = jax.lax.dynamic_update_slice_in_dim(values, v, start, 0)
        written.append((keys, values))
        y = _attention(c, _rotate(q, cos, sin), keys[:span], values[:span], start)
        x = x + y @ layer["output"].T
        z = _rms_norm(x, layer["ffn_norm"], c.eps) @ layer["gate_up"].T
        x = x + (jax.nn.silu(z[:, : c.ffn]) * z[:, c.ffn :]) @ layer["down"].T
    last = _rms_norm(x[-1:], w["norm"], c.eps)
    return jnp.matmul(last, w["head"].T, preferred_element_type=jnp.float32), written


def _rms_norm(x: Any, weight: Any, eps: float) -> Any:
    f = x.astype(jnp.float32)
    return (f * jax.lax.rsqrt((f * f).mean(-1, keepdims=True) + eps)).astype(x.dtype) * weight


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    """x [t, heads, head_dim], neighbours in pairs."""
    a, b = x[..., 0::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
    y = jnp.stack((a * cos - b * sin, b * cos + a * sin), -1)
    return y.reshape(x.shape).astype(x.dtype)


def _attention(c: Config, q: Any, keys: Any, values: Any, start: Any) -> Any:
    """Of q [t, heads, head_dim] over [span, kv_heads, head_dim], each token up to itself."""
    t = len(q)
    q = q.reshape(t, c.kv_heads, -1, c.head_dim)
    scores = jnp.einsum("tkgd,skd->kgts", q, keys, preferred_element_type=jnp.float32)
    is_seen = jnp.arange(len(keys))[None] <= start + jnp.arange(t)[:, None]
    p = jax.nn.softmax(jnp.where(is_seen, scores * c.head_dim**-0.5, -jnp.inf), -1)
    y = jnp.einsum("kgts,skd->tkgd", p.astype(values.dtype), values)
    return y.reshape(t, c.hidden)
