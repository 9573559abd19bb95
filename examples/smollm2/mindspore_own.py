# SPDX-License-Identifier: Apache-2.0
"""The same decoder in MindSpore's own operators, in f32: the opponent on that host.

Weights are merged and stored as matmul likes them, caches are written by index, and the query heads
of a group are rows of one batched product. In a graph a step attends to the whole cache.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from .weights import Config, ModelFile


def kept(array: Any, name: str) -> Any:
    tensor = Tensor(np.ascontiguousarray(array, np.float32))
    return Parameter(tensor, name=name, requires_grad=False)


class OwnLayer(nn.Cell):
    """Weights [in, out] and caches [kv_heads, max_tokens, head_dim] of a decoder layer."""

    def __init__(self, c: Config, weights: dict[str, Any], max_tokens: int) -> None:
        super().__init__()

        def merged(*names: str) -> Any:
            return np.concatenate([weights[n] for n in names]).T

        self.attn_norm = kept(weights["attn_norm"], "attn_norm")
        self.ffn_norm = kept(weights["ffn_norm"], "ffn_norm")
        self.qkv = kept(merged("attn_q", "attn_k", "attn_v"), "qkv")
        self.output, self.down = kept(merged("attn_output"), "o"), kept(merged("ffn_down"), "down")
        self.gate, self.up = kept(merged("ffn_gate"), "gate"), kept(merged("ffn_up"), "up")
        cache = np.zeros((c.kv_heads, max_tokens, c.head_dim))
        self.keys, self.values = kept(cache, "keys"), kept(cache, "values")
        self.heads, self.kv, self.d, self.eps = c.heads, c.kv_heads, c.head_dim, c.eps
        self.scale, self.group = c.head_dim**-0.5, c.heads // c.kv_heads
        self.write = ops.ScatterNdUpdate()
        self.scores, self.sums = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()

    def normed(self, x: Any, weight: Any) -> Any:
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + self.eps) * weight

    def rotated(self, x: Any, cos: Any, sin: Any) -> Any:
        pairs = x.reshape((x.shape[0], x.shape[1], self.d // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return ops.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(x.shape)

    def construct(self, x: Any, cos: Any, sin: Any, at: Any, hidden: Any) -> Any:
        t = x.shape[0]
        qkv = ops.matmul(self.normed(x, self.attn_norm), self.qkv)
        heads = qkv.reshape((t, self.heads + 2 * self.kv, self.d))
        q = self.rotated(heads[:, : self.heads], cos, sin)
        k = self.rotated(heads[:, self.heads : self.heads + self.kv], cos, sin)
        v = heads[:, self.heads + self.kv :]
        keys = self.write(self.keys, at, k.transpose((1, 0, 2)))
        values = self.write(self.values, at, v.transpose((1, 0, 2)))
        q = q.reshape((t, self.kv, self.group, self.d)).transpose((1, 2, 0, 3))
        scores = self.scores(q.reshape((self.kv, self.group * t, self.d)), keys) * self.scale
        y = self.sums(ops.softmax(scores + hidden, -1), values)
        y = y.reshape((self.kv, self.group, t, self.d)).transpose((2, 0, 1, 3))
        x = x + ops.matmul(y.reshape((t, self.heads * self.d)), self.output)
        z = self.normed(x, self.ffn_norm)
        act = ops.silu(ops.matmul(z, self.gate)) * ops.matmul(z, self.up)
        return x + ops.matmul(act, self.down)


class OwnStep(nn.Cell):
    """Appends tokens to the sequence. Returns the logits of the last one."""

    def __init__(self, file: ModelFile, max_tokens: int) -> None:
        super().__init__()
        c, w = file.config, file.tensors
        blocks = []
        for i in range(c.layers):
            begin = f"blk.{i}."
            own = {n[len(begin) : -7]: v for n, v in w.items() if n.startswith(begin)}
            blocks.append(OwnLayer(c, own, max_tokens))
        self.blocks = nn.CellList(blocks)
        self.embedding = kept(w["token_embd.weight"], "embedding")
        self.norm = kept(w["output_norm.weight"], "norm")
        head = w.get("output.weight", w["token_embd.weight"])
        self.head = kept(head.T, "head")

    def construct(self, ids: Any, cos: Any, sin: Any, at: Any, hidden: Any) -> Any:
        x = ops.gather(self.embedding, ids, 0)
        for block in self.blocks:
            x = block(x, cos, sin, at, hidden)
        return ops.matmul(self.blocks[0].normed(x[-1:], self.norm), self.head)


class OwnModel:
    """One sequence at a time. compiled: every step is a graph, one for each number of tokens."""

    def __init__(self, file: ModelFile, max_tokens: int = 512, compiled: bool = False) -> None:
        c = self.config = file.config
        self.max_tokens = max_tokens
        cell = OwnStep(file, max_tokens)
        self._step = ms.jit(cell.construct) if compiled else cell
        frequency = c.rope_base ** (-np.arange(0, c.head_dim, 2) / c.head_dim)
        angle = np.arange(max_tokens)[:, None, None] * frequency
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        self.length = 0

    def reset(self) -> None:
        self.length = 0

    def forward(self, ids: Any) -> Any:
        """Appends ids[t]; returns the last token's logits [1, vocab]."""
        c, t, start = self.config, len(ids), self.length
        positions = np.arange(start, start + t)
        at = np.stack(np.meshgrid(np.arange(c.kv_heads), positions, indexing="ij"), -1)
        is_hidden = np.arange(self.max_tokens) > positions[:, None]
        hidden = np.tile(np.where(is_hidden, np.float32(-1e30), np.float32(0)),
                         (c.heads // c.kv_heads, 1))  # fmt: skip
        cos, sin = self.cos[positions], self.sin[positions]
        arrays = (np.asarray(ids, np.int64), cos, sin, at.astype(np.int32), hidden)
        self.length += t
        return self._step(*map(Tensor, arrays))  # copies: what runs later outlives the arrays
