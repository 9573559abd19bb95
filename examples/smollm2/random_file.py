# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files of random weights in the shapes of known models, to measure speed and memory.

Nothing is quantized: blocks are made of random bytes and scales, so that 8 billion weights take
seconds. Which tensor gets which format is what llama.cpp's quantizer decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from .decoder_graphs import LLAMA_8B, SMOLLM2, Shape
from .gguf_file import EMBEDDING, FILE_TYPES
from .llama import QUANTIZER
from .weights import RESCALE

HEAD = "output.weight"
# By the name of the mix: the format of most tensors.
MIXES = {
    "bf16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0", "q4_1": "Q4_1", "q5_0": "Q5_0", "q5_1": "Q5_1",
    "q4_K_M": "Q4_K", "q5_K_M": "Q5_K", "q6_K": "Q6_K",
}  # fmt: skip
# Instead of blocks of 256 where rows are no multiple of them.
NARROW = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
# The f16 numbers of a block: its first byte, and the numbers relative to the scale. The second one
# makes the mean of the weights 0.
SCALES = {
    "Q8_0": (0, (1.0,)), "Q4_0": (0, (1.0,)), "Q4_1": (0, (1.0, -7.5)), "Q5_0": (0, (1.0,)),
    "Q5_1": (0, (1.0, -15.5)), "Q4_K": (0, (1.0, 7.5)), "Q5_K": (0, (1.0, 15.5)),
    "Q6_K": (208, (1.0,)),
}  # fmt: skip
# The most blocks of a pool. A prime above the number of rows of every tensor: rows begin at
# different blocks, so that no two are equal.
POOL = 131071
BF16_BLOCK = 32  # elements


@dataclass(frozen=True)
class Kind:
    """A Llama. is_tied: its head is its embedding. is_rescaled: rope as in Llama 3.1 and later."""

    title: str
    shape: Shape
    is_tied: bool
    context: int
    rope_base: float
    is_rescaled: bool = False


KINDS = {
    "smollm2-135m": Kind("SmolLM2-135M", SMOLLM2, True, 8192, 1e5),
    "llama-3.2-1b": Kind(
        "Llama-3.2-1B", Shape(16, 2048, 32, 8, 64, 8192, 128256), True, 131072, 5e5, True
    ),
    "llama-3-8b": Kind("Llama-3-8B", LLAMA_8B, False, 8192, 5e5),
}


def matrices(kind: Kind) -> dict[str, tuple[int, int]]:
    """[out, in] by name."""
    s = kind.shape
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    layer = {
        "attn_q": (q, s.hidden), "attn_k": (kv, s.hidden), "attn_v": (kv, s.hidden),
        "attn_output": (s.hidden, q), "ffn_gate": (s.ffn, s.hidden), "ffn_up": (s.ffn, s.hidden),
        "ffn_down": (s.hidden, s.ffn),
    }  # fmt: skip
    found = {EMBEDDING: (s.vocab, s.hidden)}
    if not kind.is_tied:
        found[HEAD] = (s.vocab, s.hidden)
    for i in range(s.layers):
        found |= {f"blk.{i}.{name}.weight": sizes for name, sizes in layer.items()}
    return found


def format_of(mix: str, name: str, kind: Kind) -> str:
    """What llama.cpp's quantizer (llama-quant.cpp of 0.3.36) makes of a matrix: the head gets more
    bits, and in the mixes called M so do values and the last matrix of some layers."""
    usual = MIXES[mix]
    if usual == "BF16":
        return usual
    chosen, (_, columns) = usual, matrices(kind)[name]
    part = name.split(".")[-2]
    if name == (EMBEDDING if kind.is_tied else HEAD):
        chosen = "Q8_0" if usual == "Q8_0" else "Q6_K"
    elif mix.endswith("_M") and part in ("attn_v", "ffn_down"):
        chosen = "Q6_K" if gets_more_bits(int(name.split(".")[1]), kind.shape.layers) else usual
    elements, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[chosen]]
    return NARROW[chosen] if columns % elements else chosen


def gets_more_bits(layer: int, layers: int) -> bool:
    """The first and the last eighth, and every third between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def rescale_factors(head_dim: int, base: float) -> NDArray[np.float32]:
    """What Llama 3.2 divides the frequencies of rope by: 32 below one turn in 8192 tokens, 1 above
    four, and a mean between."""
    frequencies = base ** (-np.arange(0, head_dim, 2) / head_dim)
    turns = 8192 * frequencies / (2 * math.pi)
    smooth = np.clip((turns - 1) / (4 - 1), 0, 1)
    factors: NDArray[np.float32] = (1 / ((1 - smooth) / 32 + smooth)).astype(np.float32)
    return factors


class Pool:
    """Random blocks of one format, from which tensors of any size come. most: elements of the
    largest."""

    def __init__(self, format: str, most: int, random: np.random.Generator) -> None:
        self.format, self._random = format, random
        if format == "BF16":
            self._count = min(POOL, most // BF16_BLOCK)
            numbers = random.standard_normal((self._count, BF16_BLOCK), np.float32)
            self._blocks = _as_bf16(numbers)
            self.elements, self.size = BF16_BLOCK, 2 * BF16_BLOCK
            return
        kind = gguf.GGMLQuantizationType[format]
        self.elements, self.size = gguf.GGML_QUANT_SIZES[kind]
        self._count = min(POOL, most // self.elements)
        self._blocks = random.integers(0, 256, (self._count, self.size), dtype=np.uint8)
        self._spread = random.uniform(0.5, 1.5, self._count)
        self._scale(self._spread)
        self._std = float(gguf.quants.dequantize(self._blocks[:4096].copy(), kind).std())

    def _scale(self, scales: NDArray[np.float64]) -> None:
        at, relative = SCALES[self.format]
        numbers = (scales[:, None] * np.array(relative)).astype(np.float16)
        self._blocks[:, at : at + 2 * len(relative)] = numbers.view(np.uint8)

    def tensor(self, rows: int, columns: int, spread: float = 0) -> NDArray[np.uint8]:
        """Bytes of rows, which begin anywhere in the pool. Deviation: 1 / sqrt(columns), of rows
        with a spread the exponential of so many deviations more or less."""
        count = rows * columns // self.elements
        if self.format != "BF16":
            self._scale(self._spread / (self._std * math.sqrt(columns)))
        begin = int(self._random.integers(self._count))
        blocks = np.concatenate([self._blocks[begin:], self._blocks[:begin]])
        if self.format == "BF16":
            numbers = (blocks.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            blocks = _as_bf16(numbers / np.float32(math.sqrt(columns)))
        made = np.resize(blocks, (count, self.size)).reshape(rows, -1, self.size)
        if spread:
            # A power of two, as bits are the same then.
            factors = np.exp2(np.rint(spread / math.log(2) * self._random.standard_normal(rows)))
            self._multiply(made, factors)
        return made.reshape(rows, -1)

    def _multiply(self, blocks: NDArray[np.uint8], factors: NDArray[np.float64]) -> None:
        """blocks [rows, blocks of a row, bytes]: each row by a factor."""
        if self.format == "BF16":
            bits = blocks.view(np.uint16)
            bits += (np.log2(factors).astype(np.int16)[:, None, None] << 7).view(np.uint16)
            return
        at, relative = SCALES[self.format]
        bytes = blocks[..., at : at + 2 * len(relative)]
        numbers = np.ascontiguousarray(bytes).view(np.float16) * factors[:, None, None]
        bytes[...] = numbers.astype(np.float16).view(np.uint8)


def _as_bf16(numbers: NDArray[np.float32]) -> NDArray[np.uint8]:
    return (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def write(kind: Kind, mix: str, path: Path, spread: float = 1.0) -> None:
    """Writes the file tensor by tensor: the memory is that of the largest one.

    spread: of the widths of the head's rows. Of rows of one width the two likeliest tokens differ
    by 4 % of the largest logit, so that rounding alone makes one of ten steps choose another one.
    """
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, kind, mix)
    formats = {name: format_of(mix, name, kind) for name in matrices(kind)}
    sizes = list(_sizes(kind, formats))
    for name, shape, format, bytes in sizes:
        raw = gguf.GGMLQuantizationType[format]
        stored = np.dtype(np.float32 if format == "F32" else np.uint8)
        writer.add_tensor_info(name, shape, stored, bytes, raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(0)
    largest: dict[str, int] = {}
    for name, (rows, columns) in matrices(kind).items():
        largest[formats[name]] = max(largest.get(formats[name], 0), rows * columns)
    pools = {format: Pool(format, most, random) for format, most in largest.items()}
    for name, shape, format, _ in sizes:
        if format != "F32":
            is_head = name == (EMBEDDING if kind.is_tied else HEAD)
            data = pools[format].tensor(*matrices(kind)[name], spread if is_head else 0)
        elif name == RESCALE:
            data = rescale_factors(kind.shape.head_dim, kind.rope_base)
        else:
            data = random.uniform(0.8, 1.2, shape).astype(np.float32)
        writer.write_tensor_data(data)
    writer.close()


def _sizes(kind: Kind, formats: dict[str, str]) -> Iterator[tuple[str, tuple[int, ...], str, int]]:
    """Of each tensor: name, shape (blocks: of the bytes), format and bytes."""
    for name, (rows, columns) in matrices(kind).items():
        elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[formats[name]]]
        row = columns // elements * size
        yield name, (rows, row), formats[name], rows * row
    norms = [f"blk.{i}.{n}.weight" for i in range(kind.shape.layers) for n in NORMS]
    for name in (*norms, "output_norm.weight"):
        yield name, (kind.shape.hidden,), "F32", 4 * kind.shape.hidden
    if kind.is_rescaled:
        yield RESCALE, (kind.shape.head_dim // 2,), "F32", 2 * kind.shape.head_dim


NORMS = ("attn_norm", "ffn_norm")


def _describe(writer: gguf.GGUFWriter, kind: Kind, mix: str) -> None:
    s = kind.shape
    writer.add_file_type((QUANTIZER | FILE_TYPES)[mix])
    writer.add_block_count(s.layers)
    writer.add_embedding_length(s.hidden)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    writer.add_feed_forward_length(s.ffn)
    writer.add_vocab_size(s.vocab)
    writer.add_context_length(kind.context)
    writer.add_rope_freq_base(kind.rope_base)
    writer.add_rope_dimension_count(s.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    # Words that say nothing: texts are not read. llama.cpp wants a tokenizer all the same.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(["a", "b", "ab", *(f"<{i}>" for i in range(3, s.vocab))])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1] * s.vocab)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
