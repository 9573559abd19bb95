# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: requests share each step, and blocks of the cache as they come and go.

A step takes one token of every request that generates, and up to a block of prompt tokens of
those that do not yet. A request holds its blocks from its first step to its last token.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .generate import PREFILL_CHUNK, Sampling, choose
from .model import BLOCK, Model
from .weights import ModelFile

PROMPTS = (
    "Why is the sky blue?", "Name three colours of the rainbow.", "What is the capital of France?",
    "Write one sentence about the sea.", "How many days has a week?", "What do bees make?",
    "Explain gravity to a child.", "What is a prime number?", "Give me a recipe for pancakes.",
    "Who wrote Hamlet?", "What is the largest planet?", "Translate 'good morning' into French.",
    "What causes the seasons?", "List four farm animals.", "What is photosynthesis?",
    "How does a bicycle stay upright?",
)  # fmt: skip


@dataclass
class Request:
    """A prompt on its way: `ids` are the tokens so far, without the end token."""

    prompt_ids: list[int]
    limit: int
    sampling: Sampling = field(default_factory=Sampling)
    ids: list[int] = field(default_factory=list)
    done: bool = False
    cached: int = 0  # tokens whose keys and values are in the cache
    blocks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("The prompt is empty, but must hold at least one token.")
        self.random = np.random.default_rng(self.sampling.seed)

    @property
    def length(self) -> int:
        """Tokens that are known."""
        return len(self.prompt_ids) + len(self.ids)

    @property
    def pending(self) -> list[int]:
        """Tokens that are known but not in the cache."""
        return (self.prompt_ids + self.ids)[self.cached :]


class Batch:
    """Requests over one model, at most `concurrent` of them at once."""

    def __init__(
        self, model: Model, end_ids: frozenset[int], concurrent: int = 16,
        prefill_block: int = PREFILL_CHUNK,
    ) -> None:  # fmt: skip
        if concurrent < 1 or prefill_block < 1:
            raise ValueError("concurrent and prefill_block must be at least 1.")
        self.model, self.end_ids = model, end_ids
        self.concurrent, self.prefill_block = concurrent, prefill_block
        self.free = list(range(model.cache_blocks))[::-1]
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def add(self, request: Request) -> None:
        """Queues a request; one that could never run is refused."""
        length = len(request.prompt_ids) + request.limit
        most = min(self.model.max_tokens, self.model.cache_blocks * BLOCK)
        if length > most:
            raise ValueError(
                f"The prompt and its answer would be {length} tokens long, but the cache holds "
                f"{most}. Try fewer tokens or a larger cache."
            )
        request.done = request.limit <= 0
        if not request.done:
            self.waiting.append(request)

    def step(self) -> list[Request]:
        """Runs one step. Returns the requests that got a token or ended."""
        self._admit()
        if not self.running:
            return []
        parts = self._parts()
        logits = self.model.step(*self._tensors(parts))
        row, changed = 0, []
        for request, tokens in parts:
            request.cached += len(tokens)
            if request.cached < request.length:
                continue  # the rest of its prompt comes in a later step
            self._append(request, choose(logits[row : row + 1], request.sampling, request.random))
            changed.append(request)
            row += 1
        self.running = [r for r in self.running if not r.done]
        return changed

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.concurrent:
            request = self.waiting[0]
            # The last token is never read back.
            needed = -(-(len(request.prompt_ids) + request.limit - 1) // BLOCK)
            if needed > len(self.free):
                return
            request.blocks = [self.free.pop() for _ in range(needed)]
            self.running.append(self.waiting.popleft())

    def _parts(self) -> list[tuple[Request, list[int]]]:
        """The tokens of this step: one of each that generates, then prompts within the block."""
        generating = [r for r in self.running if r.ids]
        parts = [(r, r.pending) for r in generating]
        room = self.prefill_block
        for request in self.running:
            if room > 0 and not request.ids:
                tokens = request.pending[:room]
                parts.append((request, tokens))
                room -= len(tokens)
        return parts

    def _tensors(self, parts: Sequence[tuple[Request, list[int]]]) -> tuple[Any, ...]:
        counts = np.array([len(tokens) for _, tokens in parts])
        starts = np.concatenate([[0], np.cumsum(counts)])
        table = np.full((len(parts), self.model.block_table.shape[1]), -1, np.int32)
        for row, (request, _) in zip(table, parts, strict=True):
            row[: len(request.blocks)] = request.blocks
        positions = [np.arange(r.cached, r.cached + len(tokens)) for r, tokens in parts]
        whole = [r.cached + len(tokens) == r.length for r, tokens in parts]
        return (
            np.concatenate([np.array(tokens, np.int64) for _, tokens in parts]),
            np.concatenate(positions),
            starts.astype(np.int32),
            np.array([r.cached + len(tokens) for r, tokens in parts], np.int32),
            table,
            starts[1:][whole] - 1,
        )

    def _append(self, request: Request, token: int) -> None:
        request.done = token in self.end_ids
        if not request.done:
            request.ids.append(token)
            request.done = len(request.ids) == request.limit
        if request.done:
            self.free += request.blocks[::-1]
            request.blocks = []


@dataclass
class BatchResult:
    requests: list[Request]
    steps: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens of all requests, the time of their prompts included."""
        return sum(len(r.ids) for r in self.requests) / self.seconds if self.seconds else 0.0


def generate_batch(
    file: ModelFile, model: Model, prompts: Sequence[str], limit: int = 64,
    sampling: Sampling | None = None, raw: bool = False, *, concurrent: int = 16,
    prefill_block: int = PREFILL_CHUNK,
) -> BatchResult:  # fmt: skip
    """Answers all prompts together."""
    batch = Batch(model, file.end_ids, concurrent, prefill_block)
    requests = []
    for prompt in prompts:
        text = prompt if raw else file.chat(prompt)
        ids = file.encode(text)
        requests.append(Request(ids, limit, sampling or Sampling()))
        batch.add(requests[-1])
    start, steps = time.perf_counter(), 0
    while batch.waiting or batch.running:
        batch.step()
        steps += 1
    return BatchResult(requests, steps, time.perf_counter() - start)
