# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a GGUF file: byte-level BPE as GPT-2 and Llama 3 have it, or SentencePiece's
BPE as Llama 2 has it, whose merges follow from the scores of its pieces."""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

# Kinds of tokens in a file.
UNKNOWN, CONTROL, USER = 2, 3, 4
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
# How text is split before it is merged, by the file's name of it.
DIGITS = ("smollm", "default", "")
GPT2 = ("gpt-2",)
LLAMA3 = ("llama-bpe", "llama3", "llama-v3")
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What ends an answer by its text in any file, as in llama.cpp: files name one such token, and a
# model's turns may end with another. The last lines are
# tokens of code: what pads it, and what begins another file or repository.
ENDS = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
})  # fmt: skip
# Tokens that are no end beside others, of which one of each group is there: "<|end|>" only ends a
# part of an answer then, and "</s>" means something else.
NO_END_BESIDE = {
    "<|end|>": ({"<|return|>", "<|flush|>"}, {"<|call|>", "<|calls|>"}),
    "</s>": ({"<|tool_response>"},),
}


class UnknownTokenizerError(ValueError):
    """The file's tokenizer is of a kind that is not built here; the text says which."""


def of_file(fields: dict[str, Any]) -> tokenizers.Tokenizer:
    kind, tokens = fields.get("tokenizer.ggml.model", "gpt2"), fields["tokenizer.ggml.tokens"]
    if kind == "gpt2":
        tokenizer = _byte_level(fields, tokens)
    elif kind == "llama":
        tokenizer = _sentence_pieces(fields, tokens)
    else:
        raise UnknownTokenizerError(
            f"The tokenizer is of kind '{kind}', but must be 'gpt2' or 'llama'. Try another GGUF "
            "file."
        )
    kinds = fields["tokenizer.ggml.token_type"]
    pairs = list(zip(tokens, kinds, strict=True))
    tokenizer.add_special_tokens([t for t, kind in pairs if kind == CONTROL or t in ENDS])
    tokenizer.add_tokens([t for t, kind in pairs if kind == USER and t not in ENDS])
    return tokenizer


def ends(fields: dict[str, Any]) -> set[int]:
    """The tokens that end an answer by their text."""
    tokens = fields["tokenizer.ggml.tokens"]
    there = ENDS.intersection(tokens)
    for token, groups in NO_END_BESIDE.items():
        if all(there & group for group in groups):
            there -= {token}
    return {i for i, t in enumerate(tokens) if t in there}


def adds_begin(fields: dict[str, Any]) -> bool:
    """Whether a text begins with a token of its own, as llama.cpp decides where the file does
    not."""
    is_default = (
        fields.get("tokenizer.ggml.model") == "llama"
        or fields.get("tokenizer.ggml.pre", "") in LLAMA3
    )
    return bool(fields.get("tokenizer.ggml.add_bos_token", is_default))


def _byte_level(fields: dict[str, Any], tokens: list[str]) -> tokenizers.Tokenizer:
    split = fields.get("tokenizer.ggml.pre", "")
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    bpe = BPE({t: i for i, t in enumerate(tokens)}, merges, ignore_merges=split in LLAMA3)
    tokenizer = tokenizers.Tokenizer(bpe)
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if split in DIGITS:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif split in LLAMA3:
        pattern = tokenizers.Regex(LLAMA3_SPLIT)
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        steps = [pre_tokenizers.Split(pattern, "isolated"), bytes_only]
    elif split not in GPT2:
        known = "', '".join((*DIGITS[:-1], *GPT2, *LLAMA3))
        raise UnknownTokenizerError(
            f"The tokenizer splits text as '{split}', but must do so as one of '{known}'. Try "
            "another GGUF file."
        )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_pieces(fields: dict[str, Any], tokens: list[str]) -> tokenizers.Tokenizer:
    ids = {t: i for i, t in enumerate(tokens)}
    scores = fields["tokenizer.ggml.scores"]
    found = []
    for piece, score in zip(tokens, scores, strict=True):
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        found += [(-score, ids[a], ids[b], (a, b)) for a, b in halves if a in ids and b in ids]
    kinds = fields["tokenizer.ggml.token_type"]
    unknown = next((t for t, kind in zip(tokens, kinds, strict=True) if kind == UNKNOWN), None)
    merges = [pair for *_, pair in sorted(found)]
    bpe = BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(bpe)
    has_prefix = bool(fields.get("tokenizer.ggml.add_space_prefix", True))
    steps: list[Any] = [normalizers.Prepend(SPACE)] if has_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    ends: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(
        [*ends, decoders.Strip(" ", 1, 0)] if has_prefix else ends
    )
    return tokenizer
