# SPDX-License-Identifier: Apache-2.0
"""The weights of a model, arranged for anyop's operators when they are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyop
import numpy as np

from .hosts import Host
from .weights import FORMATS, ModelFile, ModelFileError

Array = Any  # of the host: numpy.ndarray or torch.Tensor

# What weights are stored as: the activations beside them, and whether blocks stay in rows.
QUANTIZED = {"q4": ("bf16", False), "q4-rows": ("bf16", True)}


@dataclass
class Linear:
    """y = x weight^T. format: of the file's blocks, "": numbers. Blocks are multiplied in integers,
    with bytes for x."""

    packed: Array  # or rows of blocks as the file has them
    features: int
    format: str = ""
    in_rows: bool = False

    def __call__(self, ops: Any, x: Array, out: Array = None) -> Array:
        if not self.format:
            return ops.linear_packed(x, self.packed, self.features, out=out)
        if self.in_rows:
            return ops.linear_blocks(x, self.packed, None, "q8", self.format, out=out)
        return ops.linear_blocks_packed(x, self.packed, self.features, None, self.format, out=out)


@dataclass
class Mixed:
    """Weights of several formats above each other."""

    parts: list[Linear]

    def __call__(self, ops: Any, x: Array, out: Array = None) -> Any:
        """Writes out, or returns the results of the parts."""
        if out is None:
            return [part(ops, x) for part in self.parts]
        begin = 0
        for part in self.parts:
            part(ops, x, out[:, begin : begin + part.features])
            begin += part.features
        return out


@dataclass
class Table:
    """The rows of tokens. format: of the file's blocks, "": numbers."""

    rows: Array
    format: str = ""
    dtype: str = ""  # of what blocks become

    def __call__(self, ops: Any, ids: Array, out: Array = None) -> Array:
        if self.format:
            return ops.embedding_blocks(ids, self.rows, self.format, self.dtype, out=out)
        return ops.embedding(ids, self.rows, out=out)


@dataclass
class Layer:
    attn_norm: Array
    qkv: Linear | Mixed
    output: Linear
    ffn_norm: Array
    gate_up: Linear
    down: Linear
    key_cache: Array  # [blocks, tokens of a block, kv_heads, head_dim]
    value_cache: Array


class Arranged:
    """Takes weights from a file for a host: as dtype, or for "q4" as the blocks they are."""

    def __init__(self, file: ModelFile, host: Host, dtype: str) -> None:
        self.file, self.host = file, host
        self.dtype, self.in_rows = QUANTIZED.get(dtype, (dtype, False))
        self.quantized = dtype in QUANTIZED
        # Not by way of float32, which would be twice the memory.
        is_ready = self.dtype == "bf16" and host.takes_bf16
        self._ready = file.bf16 if is_ready else {}

    def tensor(self, name: str) -> Array:
        if name in self._ready:
            return self.host.tensor(self._ready[name])
        return self.host.tensor(self.file.tensors[name], self.dtype)

    def table(self, name: str) -> Table:
        blocks = self.file.blocks.get(name) if self.quantized else None
        if blocks is None:
            return Table(self.tensor(name))
        return Table(self.host.tensor(blocks.rows), blocks.format, self.dtype)

    def mixed(self, *names: str) -> Linear | Mixed:
        """As linear, but weights of several formats stay blocks, if the host takes several."""
        if not self.quantized or self.host.takes_one or self._is_of_one_format(names):
            return self.linear(*names)
        return Mixed([self.linear(name) for name in names])

    def linear(self, *names: str) -> Linear:
        """Several weights become one, above each other."""
        if self.quantized and self._is_of_one_format(names):
            return self._blocks(names)
        if all(name in self._ready for name in names):
            weight = self.host.tensor(np.concatenate([self._ready[n] for n in names]))
        else:
            w = self.file.tensors
            weight = self.host.tensor(np.concatenate([w[n] for n in names]), self.dtype)
        return Linear(anyop.pack_weight(weight), len(weight))

    def _is_of_one_format(self, names: tuple[str, ...]) -> bool:
        """Weights of several formats that become one are numbers instead."""
        found = [self.file.blocks.get(name) for name in names]
        if None in found:
            raise ModelFileError(
                f"{', '.join(names)}: must be in blocks of one of the formats "
                f"{', '.join(FORMATS)} to be used as they are. Try dtype bf16."
            )
        return len({b.format for b in found if b is not None}) == 1

    def _blocks(self, names: tuple[str, ...]) -> Linear:
        found = [self.file.blocks[name] for name in names]
        kind = found[0].format
        # Rows are copied even if they are of one weight: the file's memory has no huge pages.
        is_copied = self.in_rows or len(found) > 1
        stored = np.concatenate([b.rows for b in found]) if is_copied else found[0].rows
        rows = self.host.tensor(stored)
        packed = rows if self.in_rows else anyop.pack_blocks(rows, kind)
        return Linear(packed, len(rows), kind, self.in_rows)
