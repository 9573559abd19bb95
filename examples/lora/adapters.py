# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters of a decoder: several at once in a batch, or merged into the weights.

An adapter adds B A x to a linear layer. In a batch each token names its adapter, or -1 for none:
lora_shrink gathers A x for all of them, lora_expand adds B of it to the columns of its projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.smollm2.model import BLOCK, Model
from examples.smollm2.weights import Config, ModelFile

Array = NDArray[Any]
# The layers of a decoder whose weights stand above each other, by the names of GGUF files.
LAYERS = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "output": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


@dataclass
class Adapter:
    """Of some weights, by their names: a [rank, k] and b [n, rank], which holds the scale too."""

    rank: int
    a: Mapping[str, Array]
    b: Mapping[str, Array]


def random_model(c: Config, seed: int = 0) -> ModelFile:
    """A decoder of random weights."""
    random = np.random.default_rng(seed)
    kv = c.kv_heads * c.head_dim
    shapes = {
        "attn_q": (c.hidden, c.hidden), "attn_k": (kv, c.hidden), "attn_v": (kv, c.hidden),
        "attn_output": (c.hidden, c.hidden), "ffn_gate": (c.ffn, c.hidden),
        "ffn_up": (c.ffn, c.hidden), "ffn_down": (c.hidden, c.ffn),
    }  # fmt: skip
    tensors = {"token_embd.weight": random.standard_normal((c.vocab, c.hidden), np.float32)}
    for i in range(c.layers):
        for name, shape in shapes.items():
            weight = random.standard_normal(shape, np.float32) / np.sqrt(shape[1])
            tensors[f"blk.{i}.{name}.weight"] = weight.astype(np.float32)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = np.ones(c.hidden, np.float32)
    tensors["output_norm.weight"] = np.ones(c.hidden, np.float32)
    tokenizer: Any = None  # prompts are ids
    return ModelFile(c, tensors, tokenizer, "", frozenset())


def random_adapter(file: ModelFile, rank: int, seed: int, *names: str) -> Adapter:
    """Of the weights of these names in every layer."""
    random = np.random.default_rng(seed)
    a, b = {}, {}
    for i in range(file.config.layers):
        for name in (f"blk.{i}.{n}.weight" for n in names):
            n, k = file.tensors[name].shape
            a[name] = (random.standard_normal((rank, k)) / np.sqrt(k)).astype(np.float32)
            b[name] = (random.standard_normal((n, rank)) / np.sqrt(rank)).astype(np.float32)
    return Adapter(rank, a, b)


def merged(file: ModelFile, adapter: Adapter) -> ModelFile:
    """The model whose weights are W + B A."""
    changed = {n: file.tensors[n] + adapter.b[n] @ adapter.a[n] for n in adapter.a}
    return replace(file, tensors={**file.tensors, **changed})


@dataclass
class Projection:
    """All adapters of one weight: its rows begin at `offset` in the result of its layer."""

    offset: int
    a: Array  # [adapters, rank, k], zero beyond an adapter's rank
    b: Array  # [adapters, n, rank]


class Adapted:
    """A linear layer and what its adapters add. indices: of the token of each row."""

    def __init__(self, base: Any, projections: list[Projection]) -> None:
        self.base, self.projections = base, projections
        self.indices: Array = np.empty(0, np.int32)

    def __call__(self, ops: Any, x: Array, out: Array | None = None) -> Array:
        y = self.base(ops, x, out)
        for p in self.projections:
            ops.lora_expand(ops.lora_shrink(x, p.a, self.indices), p.b, self.indices, y, p.offset)
        return y


class AdaptedModel:
    """A decoder that answers each sequence of a batch with the adapter that it asks for."""

    def __init__(self, file: ModelFile, adapters: list[Adapter], sequences: int) -> None:
        tokens = file.config.context
        self.model = Model(file, "f32", tokens, cache_tokens=tokens * sequences)
        self.layers: list[Adapted] = []
        for i, layer in enumerate(self.model.layers):
            for name, weights in LAYERS.items():
                paths = [f"blk.{i}.{weight}.weight" for weight in weights]
                adapted = Adapted(getattr(layer, name), _projections(file, adapters, paths))
                setattr(layer, name, adapted)
                self.layers.append(adapted)
        blocks = -(-tokens // BLOCK)
        self.table = np.arange(sequences * blocks, dtype=np.int32).reshape(sequences, blocks)
        self.lengths = np.zeros(sequences, np.int32)

    def step(self, ids: list[list[int]], adapters: list[int]) -> Array:
        """Appends tokens to each sequence; the logits of its last one. adapters: -1 for none."""
        counts = np.array([len(one) for one in ids])
        for layer in self.layers:
            layer.indices = np.repeat(np.array(adapters, np.int32), counts)
        starts = np.concatenate([[0], counts.cumsum()])
        positions = np.concatenate(
            [np.arange(n) + old for n, old in zip(counts, self.lengths, strict=True)]
        )
        self.lengths += counts.astype(np.int32)
        logits = self.model.step(
            np.concatenate(ids), positions, starts.astype(np.int32), self.lengths.copy(),
            self.table, starts[1:] - 1,
        )  # fmt: skip
        return np.asarray(logits)


def _projections(file: ModelFile, adapters: list[Adapter], names: list[str]) -> list[Projection]:
    found, offset = [], 0
    rank = max(adapter.rank for adapter in adapters)
    for name in names:
        n, k = file.tensors[name].shape
        a = np.zeros((len(adapters), rank, k), np.float32)
        b = np.zeros((len(adapters), n, rank), np.float32)
        for i, adapter in enumerate(adapters):
            if name in adapter.a:
                a[i, : adapter.rank], b[i, :, : adapter.rank] = adapter.a[name], adapter.b[name]
        if any(name in adapter.a for adapter in adapters):
            found.append(Projection(offset, a, b))
        offset += n
    return found


def greedy(model: AdaptedModel, prompts: list[list[int]], adapters: list[int], count: int) -> Array:
    """The likeliest tokens of each sequence, [sequences, count]."""
    ids, found = prompts, []
    for _ in range(count):
        found.append(model.step(ids, adapters).argmax(-1))
        ids = [[int(token)] for token in found[-1]]
    return np.stack(found, 1)
