# SPDX-License-Identifier: Apache-2.0
"""The same decoder in plain NumPy with a key/value cache: the demo's opponent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .weights import ModelFile

Array = NDArray[np.float32]


def _rms_norm(x: Array, weight: Array, eps: float) -> Array:
    scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps))
    return x * scale * weight


class NumpyModel:
    """Float32, weights merged and contiguous as BLAS likes them best."""

    def __init__(self, file: ModelFile, max_tokens: int = 2048) -> None:
        c = self.config = file.config
        w = self.w = file.tensors
        self.max_tokens = max_tokens
        self.length = 0
        names = ("attn_q", "attn_k", "attn_v")
        blocks = [f"blk.{i}." for i in range(c.layers)]
        self.qkv = [np.concatenate([w[f"{b}{n}.weight"] for n in names]) for b in blocks]
        self.gate_up = [
            np.concatenate([w[f"{b}{n}.weight"] for n in ("ffn_gate", "ffn_up")]) for b in blocks
        ]
        self.caches = np.zeros((c.layers, 2, c.kv_heads, max_tokens, c.head_dim), np.float32)
        angle = np.arange(max_tokens)[:, None] * (
            c.rope_base ** (-np.arange(0, c.head_dim, 2) / c.head_dim)
        )
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def reset(self) -> None:
        self.length = 0

    def _rotate(self, x: Array, start: int) -> Array:
        cos = self.cos[start : start + len(x), None]
        sin = self.sin[start : start + len(x), None]
        a, b = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2], y[..., 1::2] = a * cos - b * sin, b * cos + a * sin
        return y

    def _attention(self, i: int, qkv: Array, start: int) -> Array:
        c, t = self.config, len(qkv)
        heads = qkv.reshape(t, c.heads + 2 * c.kv_heads, c.head_dim)
        q = self._rotate(heads[:, : c.heads], start)
        k = self._rotate(heads[:, c.heads : c.heads + c.kv_heads], start)
        keys, values = self.caches[i]
        end = start + t
        keys[:, start:end] = k.transpose(1, 0, 2)
        values[:, start:end] = heads[:, c.heads + c.kv_heads :].transpose(1, 0, 2)
        group = c.heads // c.kv_heads
        q = q.reshape(t, c.kv_heads, group, c.head_dim).transpose(1, 2, 0, 3)
        scores = q @ keys[:, None, :end].swapaxes(-1, -2) * np.float32(c.head_dim**-0.5)
        if t > 1:
            hidden = np.arange(end)[None] > np.arange(start, end)[:, None]
            scores = np.where(hidden, np.float32(-np.inf), scores)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = (p / p.sum(-1, keepdims=True)) @ values[:, None, :end]
        return np.ascontiguousarray(y.transpose(2, 0, 1, 3)).reshape(t, c.hidden)

    def forward(self, ids: NDArray[Any]) -> Array:
        """Appends ids[t]; returns the last token's logits [1, vocab]."""
        c, w, start = self.config, self.w, self.length
        x: Array = w["token_embd.weight"][ids]
        for i in range(c.layers):
            b = f"blk.{i}."
            y = _rms_norm(x, w[b + "attn_norm.weight"], c.eps) @ self.qkv[i].T
            x = x + self._attention(i, y, start) @ w[b + "attn_output.weight"].T
            z = _rms_norm(x, w[b + "ffn_norm.weight"], c.eps) @ self.gate_up[i].T
            gate, up = z[:, : c.ffn], z[:, c.ffn :]
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[b + "ffn_down.weight"].T
        self.length = start + len(ids)
        return _rms_norm(x[-1:], w["output_norm.weight"], c.eps) @ w["token_embd.weight"].T
