# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers give through the backend anyop what they give through torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from architectures import (  # noqa: E402
    DECODERS,
    ENCODER_DECODERS,
    ENCODERS,
    MODES,
    calls_of,
    compiled,
    generate,
    inputs_of,
    model_of,
    padded,
    words,
)

# One of each kind: grouped keys, windows, experts, biases, states, encoders of both kinds.
USUAL = {"llama", "gemma3", "qwen3_moe", "mamba", "bert", "t5"}
FEW = {"llama", "bert"}  # of what differs little between them
GROWING = {"gemma3", "t5"}  # of these: with the cache that grows


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def each(names: Any, usual: Any) -> Any:
    return [
        pytest.param(n, marks=() if n in usual else pytest.mark.exhaustive) for n in sorted(names)
    ]


def each_cache(names: Any) -> Any:
    """Of the usual ones each with one of them."""
    for name in sorted(names):
        for cache, label in ((None, "growing"), ("static", "static")):
            usual = name in USUAL and (name in GROWING) == (cache is None)
            marks = () if usual else pytest.mark.exhaustive
            yield pytest.param(name, cache, marks=marks, id=f"{name}-{label}")


def assert_close(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    """Sums in other orders: their error grows with the largest score, not with each."""
    scale = max(float(theirs[theirs.isfinite()].abs().max()), 1.0)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4 * scale)


def assert_generates(model: Any, cache: str | None, ids: Any, mask: Any) -> None:
    mine = compiled(copy.deepcopy(model))
    with torch.no_grad():
        wanted = generate(model, cache, ids, mask)
        given = generate(mine, cache, ids, mask)
    assert given.sequences.tolist() == wanted.sequences.tolist()
    for a, b in zip(given.logits, wanted.logits, strict=True):
        assert_close(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cache"), each_cache(DECODERS))
def test_generated_words_are_torchs(name: str, cache: str | None) -> None:
    """The prompt is longer than the windows, and one of its sequences is padded."""
    ids = words(2)
    assert_generates(model_of(name), cache, ids, padded(ids))


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_prompts_without_padding(name: str, batch: int) -> None:
    ids = words(batch, seed=1)
    assert_generates(model_of(name), "static", ids, torch.ones_like(ids))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_prompts_of_many_lengths(name: str) -> None:
    """One compiled model, called with prompts shorter and longer than the windows."""
    model = model_of(name)
    mine = compiled(copy.deepcopy(model))
    with torch.no_grad():
        for length in (4, 9, 1, 13):
            ids = words(2, length, seed=length)
            mask = padded(ids, length // 3)
            given, wanted = (
                m(input_ids=ids, attention_mask=mask, use_cache=False).logits for m in (mine, model)
            )
            real = mask.bool()
            assert_close(given[real], wanted[real])


@pytest.mark.slow
@pytest.mark.parametrize("name", each(DECODERS, FEW))
def test_captured_prompts_are_torchs(name: str) -> None:
    model = model_of(name)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")  # torch cannot trace its grouped products

    def scores(ids: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = model(input_ids=ids, use_cache=False).logits
        return made

    with torch.no_grad():
        ids = words(2)
        captured = anyop.torch.capture(scores, ids)
        for seed in range(2):
            ids = words(2, seed=seed)
            assert_close(captured(ids), scores(ids))


@pytest.mark.slow
@pytest.mark.parametrize("name", each(ENCODERS, USUAL))
def test_encoders_are_torchs(name: str) -> None:
    model, given = model_of(name), inputs_of(name)
    mine = compiled(copy.deepcopy(model))
    with torch.no_grad():
        for a, b in zip(mine(**given).to_tuple(), model(**given).to_tuple(), strict=True):
            if isinstance(a, torch.Tensor):
                assert_close(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cache"), each_cache(ENCODER_DECODERS))
def test_written_sequences_are_torchs(name: str, cache: str | None) -> None:
    ids = words(2)
    if name == "whisper":
        sound = torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(0))
        assert_generates(model_of(name), cache, sound, None)
        return
    assert_generates(model_of(name), cache, ids, padded(ids).flip(1))


CALLED_RARELY = {"llama", "qwen3", "gemma3", "phi3", "mixtral", "qwen3_moe", "gpt2", "bert", "t5",
                 "whisper"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", each(CALLED_RARELY, FEW))
def test_the_host_is_called_rarely(name: str) -> None:
    for graph, _, calls, why_not in calls_of(name):
        assert not why_not and calls <= 4, f"{graph}: {calls} {why_not}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_padded", [True, False], ids=["padded", "whole"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(CALLED_RARELY))
def test_the_host_is_called_rarely_in_each_mode(name: str, mode: str, is_padded: bool) -> None:
    for graph, _, calls, why_not in calls_of(name, mode, is_padded):
        assert not why_not and calls <= 4, f"{graph}: {calls} {why_not}"
