# SPDX-License-Identifier: Apache-2.0
"""Turns a prompt into streamed text: prefill, decode, sampling, decoding of bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyop
import numpy as np

from .weights import ModelFile

PREFILL_CHUNK = 512


@dataclass
class Sampling:
    """temperature 0 is greedy; top_k 0 and top_p 1 switch their step off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass
class Result:
    prompt_ids: list[int]
    ids: list[int] = field(default_factory=list)
    text: str = ""
    first_token_s: float = 0.0
    decode_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Of the tokens after the first."""
        return (
            (len(self.ids) - 1) / self.decode_s if self.decode_s > 0 and len(self.ids) > 1 else 0.0
        )


def choose(logits: Any, sampling: Sampling, random: np.random.Generator) -> int:
    """The token that follows logits [1, vocab]."""
    if sampling.temperature == 0:
        return int(anyop.argmax(logits)[0])
    logits = np.asarray(logits)  # of any host, without a copy
    one = np.ones(1, np.float32)
    ids = anyop.sample(
        logits,
        random.random(1, np.float32),
        sampling.temperature * one,
        np.array([sampling.top_k], np.int32),
        sampling.top_p * one,
        None,
    )
    return int(ids[0])


def tokens(
    model: Any, prompt_ids: list[int], limit: int, sampling: Sampling, end_ids: frozenset[int],
    prefill_block: int = PREFILL_CHUNK,
) -> Iterator[int]:  # fmt: skip
    """Yields new tokens; the end token is not yielded. The model is reset first."""
    if not prompt_ids:
        raise ValueError("The prompt is empty, but must hold at least one token.")
    model.reset()
    random = np.random.default_rng(sampling.seed)
    ids = np.array(prompt_ids, np.int64)
    for start in range(0, len(ids), prefill_block):
        logits = model.forward(ids[start : start + prefill_block])
    for count in range(1, limit + 1):
        token = choose(logits, sampling, random)
        if token in end_ids:
            return
        yield token
        if count < limit:
            logits = model.forward(np.array([token], np.int64))


def generate(
    file: ModelFile,
    model: Any,
    prompt: str,
    limit: int = 64,
    sampling: Sampling | None = None,
    raw: bool = False,
    *,
    show: Callable[[str], None] = lambda text: None,
    prefill_block: int = PREFILL_CHUNK,
) -> Result:
    """Generates up to `limit` tokens; `show` gets the text piece by piece as it becomes whole."""
    text = prompt if raw else file.chat(prompt)
    result = Result(prompt_ids=file.encode(text))
    start = last = time.perf_counter()
    new = tokens(
        model, result.prompt_ids, limit, sampling or Sampling(), file.end_ids, prefill_block
    )
    for token in new:
        result.ids.append(token)
        last = time.perf_counter()
        if len(result.ids) == 1:
            result.first_token_s = last - start
        whole = file.tokenizer.decode(result.ids, skip_special_tokens=True)
        if not whole.endswith("\ufffd"):  # half of a character waits for its other bytes
            show(whole[len(result.text) :])
            result.text = whole
    result.decode_s = last - start - result.first_token_s
    return result
