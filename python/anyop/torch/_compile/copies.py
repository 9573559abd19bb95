# SPDX-License-Identifier: Apache-2.0
"""Captured graphs in copies: copy.deepcopy, pickle and torch.save, alone and in what holds them.

A copy is traced from its own copy of the program, at its first call: until then the modules that
hold both may be incomplete.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from anyop import _anyop
from anyop.torch._compile.modes import in_modes


@dataclass(frozen=True)
class _Example:
    """What tracing must know of a tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return _Example(tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device)

    @staticmethod
    def made(leaf: Any) -> Any:
        if not isinstance(leaf, _Example):
            return leaf
        return torch.empty_strided(leaf.shape, leaf.stride, dtype=leaf.dtype, device=leaf.device)


def reduced(capture: Any, made_of: tuple[Any, ...], modes: list[bool], freeze: bool) -> Any:
    """The function and arguments by which pickle makes a captured graph again. capture: the
    function that makes one of a program."""
    name, program, args, kwargs, dynamic = made_of
    examples = pytree.tree_map(_Example.of, (args, kwargs))
    return restored, (capture, name, program, examples, dynamic, modes, freeze)


def restored(*state: Any) -> Any:
    """Makes a captured graph of what `reduced` gave; pickle calls it by its name."""
    later = Later(state)
    return _anyop.Captured(later, later, [], False)


class Later:
    """A captured graph that is made when something is asked of it."""

    def __init__(self, state: tuple[Any, ...]) -> None:
        self._state, self._lock = state, threading.Lock()
        self._captured: Any = None

    def _made(self) -> Any:
        with self._lock:
            if self._captured is None:
                capture, name, program, examples, dynamic, modes, freeze = self._state
                args, kwargs = pytree.tree_map(_Example.made, examples)
                with in_modes(program, modes):
                    self._captured = capture(
                        program, *args, dynamic=dynamic, freeze=freeze, name=name, **kwargs
                    )
            return self._captured

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._captured or self._made())(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for such names: nothing is made for them
            raise AttributeError(name)
        return getattr(self._made(), name)

    def __str__(self) -> str:
        return str(self._made())

    def __repr__(self) -> str:
        return repr(self._made())

    def reduced(self) -> tuple[Any, ...]:
        return restored, self._state
