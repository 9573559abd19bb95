# SPDX-License-Identifier: Apache-2.0
"""Trains the same model twice from the same weights on the same batches, step by step in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from examples.smollm2.weights import Config

from .model import Decoder
from .operators import OPERATORS, Operators

WARM_UP = 2  # steps whose time does not count


@dataclass
class Settings:
    """rank 0 trains all weights."""

    steps: int = 200
    sequences: int = 2
    length: int = 64
    rank: int = 8
    learning_rate: float = 1e-3
    seed: int = 0


@dataclass
class Run:
    """Loss and seconds of each step; a step is forward, backward and optimizer."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        return median(self.seconds[WARM_UP:] or self.seconds)


class Trainer:
    def __init__(
        self, operators: str, config: Config, tensors: dict[str, NDArray[np.float32]], s: Settings
    ) -> None:
        self.model = Decoder(config, tensors, s.rank, s.seed)
        self.operators: Operators = OPERATORS[operators](
            s.sequences, s.length, config.head_dim, config.rope_base, config.eps
        )
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=s.learning_rate)
        self.run = Run()

    def gradients(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Leaves the gradients in the parameters; returns the loss."""
        self.optimizer.zero_grad()
        loss = self.model.forward(self.operators, ids.flatten(), targets.flatten())
        loss.backward()
        return loss

    def step(self, ids: Tensor, targets: Tensor) -> None:
        start = time.perf_counter()
        loss = self.gradients(ids, targets)
        self.optimizer.step()
        self.run.losses.append(loss.item())
        self.run.seconds.append(time.perf_counter() - start)


def train(
    config: Config, tensors: dict[str, NDArray[np.float32]], settings: Settings,
    batches: Iterator[tuple[Tensor, Tensor]], ours: Any = None,
) -> Iterator[dict[str, Run]]:  # fmt: skip
    """Yields the runs after each step; in turn, so that both meet the same machine.

    ours: makes the trainer with anyop's operators on another host than PyTorch.
    """
    trainers: dict[str, Any] = {n: Trainer(n, config, tensors, settings) for n in OPERATORS}
    if ours is not None:
        trainers["anyop"] = ours(config, tensors, settings)
    for _ in range(settings.steps):
        batch = next(batches)
        for trainer in trainers.values():
            trainer.step(*batch)
        yield {name: trainer.run for name, trainer in trainers.items()}


def largest_difference(runs: dict[str, Run]) -> float:
    """Of two losses of one step."""
    ours, theirs = (run.losses for run in runs.values())
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
