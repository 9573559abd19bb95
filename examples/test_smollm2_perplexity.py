# SPDX-License-Identifier: Apache-2.0
"""Files of other formats, perplexity, and llama.cpp on the same tokens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from examples.smollm2 import gguf_file, perplexity
from examples.smollm2.llama import LlamaModel, without_llama
from examples.smollm2.model import Model
from examples.smollm2.weights import ModelFile, find_model, load


class Uniform:
    """Finds every token of 100 equally likely."""

    def reset(self) -> None:
        pass

    def forward(self, ids: Any, all_logits: bool) -> Any:
        return np.full((len(ids), 100), 3, np.float32)


def tokens_of(count: int) -> Any:
    encoded = SimpleNamespace(ids=list(range(count)))
    return SimpleNamespace(tokenizer=SimpleNamespace(encode=lambda *a, **k: encoded))


def test_a_model_that_knows_nothing_is_as_perplexed_as_it_has_tokens() -> None:
    found = [perplexity.log_probabilities(Uniform(), ids) for ids in ([1, 2, 3], [7] * 50)]
    assert [len(f) for f in found] == [2, 49]
    assert perplexity.perplexity(found) == pytest.approx(100)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(2, [2]), (perplexity.WINDOW + 1, [perplexity.WINDOW]), (5000, [perplexity.WINDOW] * 2)],
)
def test_windows_hold_two_tokens_or_more(count: int, sizes: list[int]) -> None:
    assert [len(w) for w in perplexity.windows(tokens_of(count), "text")] == sizes


def test_a_text_without_two_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="The text has 1 tokens, but must have 2 or more"):
        perplexity.windows(tokens_of(1), "a")


@pytest.mark.slow
def test_a_file_of_another_format_is_the_same_model(file: ModelFile, tmp_path: Path) -> None:
    gguf_file.write(find_model(), tmp_path / "q8_0.gguf", "q8_0")
    again = load(tmp_path / "q8_0.gguf")
    assert again.config == file.config and again.chat_template == file.chat_template
    assert {b.format for b in again.blocks.values()} == {"q8_0"}
    name = "blk.3.ffn_down.weight"
    error = np.abs(again.tensors[name] - file.tensors[name]).max()
    assert 0 < error < np.abs(file.tensors[name]).max() / 127
    ids = file.tokenizer.encode("The sky is blue because").ids
    values = [
        perplexity.perplexity([perplexity.log_probabilities(Model(f, "q4"), ids)])
        for f in (file, again)
    ]
    assert values[1] == pytest.approx(values[0], rel=0.1)


@pytest.mark.slow
@pytest.mark.skipif(bool(without_llama()), reason=without_llama())
def test_llama_cpp_finds_the_same_probabilities(file: ModelFile) -> None:
    ids = file.tokenizer.encode(perplexity.default_text()[:400]).ids
    ours = perplexity.log_probabilities(Model(file, "q4"), ids)
    theirs = LlamaModel(find_model(), max_tokens=512)
    assert np.abs(ours - theirs.log_probabilities(ids)).mean() < 0.1
    steps = theirs.decode(ids[:8], ids[8:16])
    assert [len(s) for s in steps] == [8, 8] and min(steps[0]) > 0
