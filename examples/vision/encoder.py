# SPDX-License-Identifier: Apache-2.0
"""The vision encoder of Qwen2-VL with anyop's operators, over the weights of transformers' module.

An image becomes patches, patches become tokens, and blocks of attention let each token look at all
others of its image; row and column of its patch rotate queries and keys. At the end `merge` x
`merge` neighbouring tokens become one of the language model's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyop
import torch
from torch import Tensor

EPS = 1e-6  # of every norm


@dataclass
class Shape:
    heads: int
    depth: int
    patch: int  # pixels on each side
    frames: int  # of a patch: an image is a video of equal frames
    merge: int  # tokens on each side of what becomes one


def merge_order(rows: int, columns: int, merge: int) -> Tensor:
    """The patches, numbered row by row, in the order of tokens: squares that merge lie together."""
    patches = torch.arange(rows * columns).view(rows // merge, merge, columns // merge, merge)
    return patches.permute(0, 2, 1, 3).flatten()


class Encoder:
    """weights: the state_dict of transformers' Qwen2VisionTransformerPretrainedModel."""

    def __init__(self, shape: Shape, weights: dict[str, Tensor]) -> None:
        self.shape = shape
        self.weights = weights
        self.filters = weights["patch_embed.proj.weight"]  # [d, 3, frames, patch, patch]
        self.head_dim = len(self.filters) // shape.heads

    def _linear(self, x: Tensor, name: str, activation: str = "none") -> Tensor:
        w = self.weights
        return anyop.linear(x, w[name + ".weight"], w[name + ".bias"], activation)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return anyop.layer_norm(
            x, self.weights[name + ".weight"], self.weights[name + ".bias"], EPS
        )

    def _attention(self, x: Tensor, name: str, table: Tensor, starts: Tensor) -> Tensor:
        heads = self._linear(x, name + ".qkv").view(len(x), 3, self.shape.heads, self.head_dim)
        query, key, value = heads.unbind(1)
        anyop.rotary_embedding(None, query, key, table)
        y, _ = anyop.attention(query, key, value, starts, starts, causal=False)
        return self._linear(y.flatten(1), name + ".proj")

    def _block(self, x: Tensor, name: str, table: Tensor, starts: Tensor) -> Tensor:
        attended = self._attention(self._norm(x, name + ".norm1"), name + ".attn", table, starts)
        x = anyop.add(x, attended)
        wide = anyop.gelu(self._linear(self._norm(x, name + ".norm2"), name + ".mlp.fc1"), "quick")
        return anyop.add(x, self._linear(wide, name + ".mlp.fc2"))

    def __call__(self, image: Tensor) -> Tensor:
        """image: [3, height, width], whole squares of merge * patch pixels. Returns the tokens for
        the language model, row by row."""
        s = self.shape
        rows, columns = image.shape[1] // s.patch, image.shape[2] // s.patch
        video = image[None, :, None].expand(1, 3, s.frames, *image.shape[1:])
        order = merge_order(rows, columns, s.merge)
        tokens: Any = anyop.patch_embed(video, self.filters)[0][order]
        places = torch.stack((order // columns, order % columns), 1)
        table = anyop.rotary_cache_2d(places, self.head_dim)
        starts = torch.tensor([0, len(tokens)], dtype=torch.int32)
        for i in range(s.depth):
            tokens = self._block(tokens, f"blocks.{i}", table, starts)
        squares = self._norm(tokens, "merger.ln_q").view(-1, s.merge**2 * tokens.shape[1])
        return self._linear(self._linear(squares, "merger.mlp.0", "gelu"), "merger.mlp.2")
