# SPDX-License-Identifier: Apache-2.0
"""Graphs of decoders in the shapes of known models, for measurements: their weights are inputs of
the graph, or arrays of ones that all layers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyop
import numpy as np

BLOCKS, BLOCK = 128, 16  # of the caches


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Of one layer."""
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        cache = (BLOCKS, BLOCK, self.kv_heads, self.head_dim)
        return {
            "attn_norm": (self.hidden,),
            "qkv": (qkv, self.hidden),
            "output": (self.hidden, self.heads * self.head_dim),
            "ffn_norm": (self.hidden,),
            "gate_up": (2 * self.ffn, self.hidden),
            "down": (self.hidden, self.ffn),
            "keys": cache,
            "values": cache,
        }

    def shared(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Of the whole model, with dtypes; "" is the model's."""
        return {
            "table": ("i32", (1, BLOCKS)),
            "cos_sin": ("f32", (BLOCKS * BLOCK, self.head_dim)),
            "embedding": ("", (self.vocab, self.hidden)),
            "norm": ("", (self.hidden,)),
        }


SMOLLM2 = Shape(30, 576, 9, 3, 64, 1536, 49152)
LLAMA_8B = Shape(32, 4096, 32, 8, 128, 14336, 128256)
TINY = Shape(30, 64, 1, 1, 64, 64, 64)  # so little work that a step is mostly overhead
STEP = ("i64[t]", "i64[t]", "i32[2]", "i32[1]")


def _run(shape: Shape, step: tuple[Any, ...], shared: Any, layers: list[Any]) -> Any:
    o = anyop.ops.anyop
    ids, positions, starts, lengths = step
    table, cos_sin, embedding, last_norm = shared
    kv = shape.kv_heads * shape.head_dim
    slots = o.compute_slot_mapping(starts, positions, table, BLOCK)
    hidden = o.embedding(ids, embedding)
    normed = o.rms_norm(hidden, layers[0][0])
    for i, (_, qkv, output, ffn_norm, gate_up, down, keys, values) in enumerate(layers):
        x = o.linear(normed, qkv)
        parts = (x[:, : -2 * kv], x[:, -2 * kv : -kv], x[:, -kv:])
        q, k, v = (p.reshape(p.shape[0], -1, shape.head_dim) for p in parts)
        o.rotary_embedding(positions, q, k, cos_sin)
        o.reshape_and_cache(k, v, keys, values, slots)
        attended, _ = o.paged_attention(q, keys, values, table, lengths, starts)
        delta = o.linear(attended.reshape(attended.shape[0], -1), output)
        normed, hidden = o.add_rms_norm(delta, hidden, ffn_norm)
        delta = o.linear(o.silu_and_mul(o.linear(normed, gate_up)), down)
        norm = last_norm if i + 1 == len(layers) else layers[i + 1][0]
        normed, hidden = o.add_rms_norm(delta, hidden, norm)
    return o.linear(normed[-1:], embedding, output="f32")


def of_inputs(shape: Shape, dtype: str = "bf16") -> anyop.Graph:
    """A graph whose weights and caches are inputs: nothing of their size is allocated."""

    def typed(of: str, sizes: tuple[int, ...]) -> str:
        return f"{of or dtype}[{', '.join(map(str, sizes))}]"

    shared = [typed(*s) for s in shape.shared().values()]
    layer = [typed("", sizes) for sizes in shape.weights().values()]
    n, m = len(STEP), len(STEP) + len(shared)

    def step(*xs: Any) -> Any:
        layers = [xs[k : k + len(layer)] for k in range(m, len(xs), len(layer))]
        return _run(shape, xs[:n], xs[n:m], layers)

    return anyop.graph(step, *STEP, *shared, *layer * shape.layers)


def of_arrays(shape: Shape) -> tuple[Any, anyop.Graph]:
    """The function of a step and its graph, in float32; all layers have the same weights."""
    dtypes = {"i32": np.int32, "f32": np.float32, "": np.float32}
    shared = [np.zeros(sizes, dtypes[d]) for d, sizes in shape.shared().values()]
    layers = [[np.ones(s, np.float32) for s in shape.weights().values()]] * shape.layers

    def step(ids: Any, positions: Any, starts: Any, lengths: Any) -> Any:
        return _run(shape, (ids, positions, starts, lengths), shared, layers)

    return step, anyop.graph(step, *STEP)


def decode_inputs() -> tuple[Any, ...]:
    """The first token of a sequence."""
    return (
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([0, 1], np.int32),
        np.ones(1, np.int32),
    )  # fmt: skip
