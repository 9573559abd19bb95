# SPDX-License-Identifier: Apache-2.0
"""Which modules of a program are in training, as tracing sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def _modules(program: Any) -> list[torch.nn.Module]:
    owner = program if isinstance(program, torch.nn.Module) else getattr(program, "__self__", None)
    return list(owner.modules()) if isinstance(owner, torch.nn.Module) else []


def modes_of(program: Any) -> list[bool]:
    """Which modules of a program are in training."""
    return [module.training for module in _modules(program)]


@contextlib.contextmanager
def in_modes(program: Any, modes: list[bool]) -> Iterator[None]:
    """Within, the modules of a program are in training as they were when it was captured."""
    modules, now = _modules(program), modes_of(program)
    try:
        for module, mode in zip(modules, modes, strict=False):
            module.training = mode
        yield
    finally:
        for module, mode in zip(modules, now, strict=True):
            module.training = mode
