# SPDX-License-Identifier: Apache-2.0
"""One run of a program's calls, and what a caller can see of each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fuzz.program import Program

Wrap = Callable[[Any], Any]

_GRAD: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "plain": contextlib.nullcontext,
    "train": contextlib.nullcontext,
}


@dataclass
class Seen:
    """What a call did. tensors: arguments first, then those of the result."""

    error: BaseException | None = None
    spec: Any = None
    leaves: list[Any] = field(default_factory=list)
    arguments: dict[str, torch.Tensor] = field(default_factory=dict)
    is_written: dict[str, bool] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # copies, by name
    places: dict[str, Any] = field(default_factory=dict)  # storage, offset, strides, by name
    gradients: dict[str, Any] = field(default_factory=dict)

    def named(self) -> dict[str, torch.Tensor]:
        made = {f"result {i}": v for i, v in enumerate(self.leaves) if _is_tensor(v)}
        return {**self.arguments, **made}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def place_of(t: torch.Tensor) -> tuple[int, int, tuple[int, ...]]:
    """(storage, offset, strides); where there are no elements, the storage does not matter."""
    return (t.untyped_storage().data_ptr() if t.numel() else 0, t.storage_offset(), t.stride())


def _copied(t: torch.Tensor) -> torch.Tensor:
    return t.detach().clone()


class Session:
    """The calls of a program through one wrapped module (a compiled one, or the module itself)."""

    def __init__(self, program: Program, wrap: Wrap = lambda f: f) -> None:
        self.program = program
        names = program.names_and_code()
        self.make_arguments = names["arguments"]
        first = self.make_arguments(0)
        with _GRAD["inference" if program.grad == "inference" else "plain"]():
            self.module = names["Program"](first)
        self.first: Any = first
        self.wrapped = wrap(self.module)
        self.within: Callable[[], Any] = contextlib.nullcontext  # of a call and its gradients
        self.calls = 0

    def arguments(self) -> dict[str, Any]:
        """Those of the next call; buffers are what the module has."""
        made = self.first if self.calls == 0 else self.make_arguments(self.calls)
        p = self.program
        for name in p.buffers:
            old = getattr(self.module, name)
            if self.calls and p.between == "move" and not isinstance(old, torch.nn.Parameter):
                setattr(self.module, name, made[name])
            elif self.calls and p.between != "keep":
                _write(old, made[name])
            made[name] = getattr(self.module, name)
        if p.grad == "train":
            for name, t in made.items():
                if name not in p.buffers and is_trained(t):
                    t.requires_grad_()
        self.calls += 1
        return dict(made)

    def passed(self, given: dict[str, Any]) -> list[Any]:
        """What the module is called with."""
        rows = [t for name, t in given.items() if name not in self.program.buffers]
        return [rows] if self.program.is_packed else rows

    def call(self) -> Seen:
        given = self.arguments()
        passed = self.passed(given)
        seen = Seen(arguments={n: t for n, t in given.items() if _is_tensor(t)})
        versions = {n: _version(t) for n, t in seen.arguments.items()}
        torch.manual_seed(self.calls)
        with _GRAD[self.program.grad]():
            try:
                with self.within():
                    result = self.wrapped(*passed)
            except Exception as error:
                seen.error = error
                return seen
        seen.leaves, seen.spec = pytree.tree_flatten(result)
        seen.is_written = {n: _version(t) != versions[n] for n, t in seen.arguments.items()}
        seen.values = {n: _copied(t) for n, t in seen.named().items()}
        seen.places = {n: place_of(t) for n, t in seen.named().items()}
        if self.program.grad == "train":
            with self.within():
                seen.gradients = gradients(seen)
        return seen


def is_trained(t: Any) -> bool:
    return _is_tensor(t) and t.is_floating_point() and t._base is None


def _write(old: torch.Tensor, value: torch.Tensor) -> None:
    with contextlib.suppress(RuntimeError), torch.no_grad():
        old.copy_(value)  # refused where its elements lie on one another, or its size differs


def _version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


def gradients(seen: Seen) -> dict[str, Any]:
    """Of the arguments, for a loss that weighs all elements of the result differently."""
    loss: Any = 0
    for leaf in seen.leaves:
        if _is_tensor(leaf) and leaf.requires_grad and leaf.is_floating_point():
            weights = torch.arange(leaf.numel()).reshape(leaf.shape) % 7 - 2.5
            loss = loss + (leaf.float() * weights).sum()
    if not _is_tensor(loss):
        return {}
    try:
        loss.backward()
    except RuntimeError as error:
        return {"error": type(error)}
    return {n: t.grad for n, t in seen.arguments.items() if t.is_leaf and t.grad is not None}


def overwrite(seen: Seen) -> dict[str, Any]:
    """Writes into each result in turn; what all tensors are then, and where that was refused."""
    found: dict[str, Any] = {}
    for i, leaf in enumerate(seen.leaves):
        if not _is_tensor(leaf):
            continue
        try:
            with torch.inference_mode(leaf.is_inference()), torch.no_grad():
                leaf.logical_not_() if leaf.dtype == torch.bool else leaf.fill_(i + 3)
        except RuntimeError:
            found[f"refused {i}"] = True
    found.update({n: _copied(t) for n, t in seen.named().items()})
    return found
