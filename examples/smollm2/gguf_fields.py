# SPDX-License-Identifier: Apache-2.0
"""The fields of a Llama's GGUF file: of which kind each is, and which say nothing that is computed
here. A field that nobody here knows may change what the model computes, so it is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

MOST_LETTERS = 512  # of a token; SentencePiece's are cut at every place
QUANTIZATION = 2  # the version of the formats of blocks that are read
# Fields that name a token that ends an answer: "tokenizer.ggml.eos_token_id".
ENDS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")


class FieldError(ValueError):
    """A field is of another kind, or changes what is computed; the text says what to do."""


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


_TOKEN = (lambda value: type(value) is int and value >= 0, "the number of a token")
_SIZE, _TEXT = (_is_size, "a size of a model"), (_is_text, "a text")
_POSITIVE, _FLAG = (_is_positive, "a number above 0"), (_is_flag, "true or false")
_ANY = (lambda value: True, "")


def _only(*values: Any) -> tuple[Callable[[Any], bool], str]:
    """What computes something here for these values alone."""
    return (lambda value: value in values, " or ".join(map(repr, values)))


# By name: a rule, and in words what it asks for.
KNOWN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "general.architecture": _TEXT,
    "general.type": _only("model"),
    "general.quantization_version": _only(QUANTIZATION),
    "llama.block_count": _SIZE,
    "llama.context_length": _SIZE,
    "llama.embedding_length": _SIZE,
    "llama.feed_forward_length": _SIZE,
    "llama.vocab_size": _SIZE,
    "llama.attention.head_count": _SIZE,
    "llama.attention.head_count_kv": _SIZE,
    "llama.attention.key_length": _SIZE,
    "llama.attention.value_length": _SIZE,
    "llama.attention.layer_norm_rms_epsilon": _POSITIVE,
    "llama.rope.dimension_count": _SIZE,
    "llama.rope.freq_base": _POSITIVE,
    "llama.rope.scaling.type": _TEXT,
    "llama.rope.scaling.factor": _POSITIVE,
    "llama.rope.scale_linear": _POSITIVE,
    # Of the training: nothing is computed from them where the scaling is linear.
    "llama.rope.scaling.original_context_length": _ANY,
    "llama.rope.scaling.finetuned": _ANY,
    # What a plain Llama has not, where the file says so itself.
    "llama.rope.scaling.attn_factor": _only(1),
    "llama.attention.causal": _only(True),
    "llama.attention.clamp_kqv": _only(0),
    "llama.attention.max_alibi_bias": _only(0),
    "llama.attention.sliding_window": _only(0),
    "llama.expert_count": _only(0),
    "llama.expert_used_count": _only(0),
    "llama.use_parallel_residual": _only(False),
    "llama.tensor_data_layout": _only("Meta AI original pth", "reference"),
    "tokenizer.ggml.model": _TEXT,
    "tokenizer.ggml.pre": _TEXT,
    "tokenizer.ggml.tokens": (
        _list_of(lambda t: _is_text(t) and len(t) <= MOST_LETTERS),
        f"a list of texts of at most {MOST_LETTERS} letters",
    ),
    "tokenizer.ggml.token_type": (_list_of(lambda n: type(n) is int), "a list of whole numbers"),
    "tokenizer.ggml.scores": (_list_of(_is_number), "a list of numbers"),
    "tokenizer.ggml.merges": (
        _list_of(lambda m: _is_text(m) and m.count(" ") == 1),
        "a list of texts, each of two tokens with a blank between them",
    ),
    **{f"tokenizer.ggml.{name}_token_id": _TOKEN for name in ("bos", *ENDS)},
    "tokenizer.ggml.add_bos_token": _FLAG,
    "tokenizer.ggml.add_space_prefix": _FLAG,
    "tokenizer.ggml.add_eos_token": _only(False),
    "tokenizer.ggml.add_sep_token": _only(False),
    "tokenizer.ggml.remove_extra_whitespaces": _only(False),
    # Tokens that no text here is made of: a prompt is read, an answer continues it.
    **{
        f"tokenizer.ggml.{name}_token_id": _ANY
        for name in ("unknown", "padding", "seperator", "cls", "mask", "prefix", "suffix",
                     "middle", "fim_pre", "fim_suf", "fim_mid")
    },
    "tokenizer.huggingface.json": _ANY,
    "tokenizer.chat_template": _TEXT,
    "tokenizer.chat_templates": _ANY,
    "tokenizer.chat_template.*": _ANY,
}  # fmt: skip
# What begins otherwise is not the model's: who made the file, and with what.
OWN = ("llama.", "tokenizer.")


def check(fields: Mapping[str, Any]) -> None:
    """Raises FieldError."""
    for name, value in fields.items():
        is_template = name.startswith("tokenizer.chat_template.")
        rule = KNOWN.get("tokenizer.chat_template.*" if is_template else name)
        if rule is None:
            if name.startswith(OWN):
                raise FieldError(
                    f"The file has the field {name!r:.80}, {value!r:.40}, which is not known here "
                    "and may change what the model computes. Try another GGUF file."
                )
            continue
        is_right, kind = rule
        if not is_right(value):
            raise FieldError(f"{name} is {value!r:.40}, but must be {kind}. Try another GGUF file.")
    n_tokens = len(fields.get("tokenizer.ggml.tokens", []))
    for name in ("bos", *ENDS):
        token = fields.get(f"tokenizer.ggml.{name}_token_id", 0)
        if n_tokens and token >= n_tokens:
            raise FieldError(
                f"tokenizer.ggml.{name}_token_id is {token}, but there are {n_tokens} tokens. Try "
                "another GGUF file."
            )
    for name in ("token_type", "scores"):
        given = fields.get(f"tokenizer.ggml.{name}")
        if given is not None and len(given) != n_tokens:
            raise FieldError(
                f"tokenizer.ggml.{name} has {len(given)} values, but there are {n_tokens} tokens. "
                "Try another GGUF file."
            )
