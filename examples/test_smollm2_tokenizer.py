# SPDX-License-Identifier: Apache-2.0
"""Tokenizers that are made of the fields of a GGUF file."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers")

from examples.smollm2 import tokenizer  # noqa: E402


def test_pieces_are_merged_by_their_scores() -> None:
    """As SentencePiece does: the best of the pairs first; letters that nobody knows are bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    kinds = [tokenizer.UNKNOWN, tokenizer.CONTROL, tokenizer.CONTROL, *([6] * 256)]
    scores = [0.0] * len(pieces)
    for piece, score in {"_": -9, "a": -8, "b": -8, "_a": -2, "ab": -1, "_b": -3}.items():
        pieces.append(piece.replace("_", tokenizer.SPACE))
        kinds.append(1)
        scores.append(score)
    fields = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": kinds,
    }  # fmt: skip
    made = tokenizer.of_file(fields)
    encoded = made.encode("ab b a\u00e9</s>")
    shown = [t.replace(tokenizer.SPACE, "_") for t in encoded.tokens]
    assert shown == ["_", "ab", "_b", "_a", "<0xC3>", "<0xA9>", "</s>"]
    assert made.decode(encoded.ids) == "ab b a\u00e9"
    assert tokenizer.adds_begin(fields)
    assert not tokenizer.adds_begin({**fields, "tokenizer.ggml.add_bos_token": False})


def test_text_is_split_as_llama_3_splits_it() -> None:
    letters = sorted(tokenizer.pre_tokenizers.ByteLevel.alphabet())
    fields = {
        "tokenizer.ggml.tokens": [*letters, "12", "123", "\u0120a", "\u0120ab", "1234"],
        "tokenizer.ggml.merges": ["1 2", "12 3", "\u0120 a"],
        "tokenizer.ggml.token_type": [1] * (len(letters) + 5), "tokenizer.ggml.pre": "llama-bpe",
    }  # fmt: skip
    shown = tokenizer.of_file(fields).encode("1234 ab").tokens
    assert shown == ["123", "4", "\u0120ab"], "three digits at most; a word that is a token is one"
    assert tokenizer.adds_begin(fields)


@pytest.mark.parametrize(
    ("tokens", "ends"),
    [
        (["<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<end_of_turn>"], {0, 1, 2, 3}),
        (["<|end|>", "<|return|>", "<|call|>"], {1, 2}),
        (["<|end|>", "<|call|>"], {0, 1}),
        (["</s>", "<|tool_response>"], {1}),
        (["</s>", "<|fim_pad|>", "<reponame>", "<|file_sep|>"], {0, 1, 2, 3}),
        (["<|im_start|>", "eot_id", " <|eot_id|>"], set()),
    ],
)
def test_answers_end_with_tokens_by_their_text(tokens: list[str], ends: set[int]) -> None:
    """As in llama.cpp, src/llama-vocab.cpp: special_eog_ids."""
    assert tokenizer.ends({"tokenizer.ggml.tokens": tokens}) == ends
