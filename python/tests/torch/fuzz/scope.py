# SPDX-License-Identifier: Apache-2.0
"""What a growing program has: names, and what torch gives them in each of its calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyop
import torch
import torch.nn.functional as F

Test = Callable[[torch.Tensor], bool]

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WHOLES = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
MAX_ELEMENTS = 4096


class Refused(Exception):
    """No statement of this kind fits what there is."""


class Scope:
    def __init__(self, rng: random.Random, first: list[dict[str, torch.Tensor]], mode: Any) -> None:
        """first: the arguments of each call, by name. mode: makes the context of a call."""
        self.rng, self.mode = rng, mode
        self.make_first: Any = None
        self.body: list[str] = []
        self.calls = [self.named(given) for given in first]
        self.names = [n for n, t in first[0].items() if isinstance(t, torch.Tensor)]
        self.numbers = [n for n in first[0] if n not in self.names]
        self.number = 0

    def named(self, given: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"torch": torch, "anyop": anyop, "F": F, **given}

    def new(self) -> str:
        self.number += 1
        return f"v{self.number}"

    def __getitem__(self, name: str) -> torch.Tensor:
        made: torch.Tensor = self.calls[0][name]
        return made

    def all(self, test: Test = lambda t: True) -> list[str]:
        return [name for name in self.names if test(self[name])]

    def pick(self, test: Test = lambda t: True) -> str:
        """A tensor, rather one of the last."""
        found = self.all(test)
        if not found:
            raise Refused
        return found[-1 - min(int(self.rng.expovariate(0.35)), len(found) - 1)]

    def pick_float(self, rank: int = 0, test: Test = lambda t: True) -> str:
        return self.pick(lambda t: t.is_floating_point() and t.dim() >= rank and test(t))

    def choice(self, many: Sequence[Any]) -> Any:
        if not many:
            raise Refused
        return self.rng.choice(many)

    def one_of(self, *many: Any) -> Any:
        return self.rng.choice(many)

    def often(self, part: float) -> bool:
        return self.rng.random() < part

    def dim(self, name: str) -> int:
        """Any dimension, counted from either end."""
        rank = self[name].dim()
        if not rank:
            raise Refused
        return self.rng.randrange(-rank, rank)

    def varies(self, name: str, dim: int) -> bool:
        if len({call[name].dim() for call in self.calls}) > 1:
            raise Refused
        return len({call[name].shape[dim] for call in self.calls}) > 1

    def is_static(self, name: str) -> bool:
        return len({tuple(call[name].shape) for call in self.calls}) == 1

    def size(self, name: str, dim: int) -> str:
        """A size as text that is right in each call."""
        n = self[name].shape[dim]
        return f"{name}.shape[{dim}]" if self.varies(name, dim) or self.often(0.1) else str(n)

    def sizes(self, name: str) -> list[str]:
        return [self.size(name, d) for d in range(self[name].dim())]

    def run(self, text: str, grad: bool = False) -> bool:
        """Adds a statement if torch runs it in every call."""
        try:
            code = compile(text, "<statement>", "exec")
            for call in self.calls:
                with self.mode():
                    exec(code, call)
                self.check(call, text)
        except Exception:
            self.replay()
            return False
        self.body.append(text)
        self.learn()
        return True

    def check(self, call: dict[str, Any], text: str) -> None:
        for name, value in call.items():
            if isinstance(value, torch.Tensor) and value.numel() > MAX_ELEMENTS:
                raise ValueError(f"{name} is too large")

    def replay(self) -> None:
        """Everything as it was before a statement that failed, which may have written."""
        self.calls = [self.named(given) for given in self.make_first()]
        for text in self.body:
            for call in self.calls:
                with self.mode():
                    exec(text, call)

    def learn(self) -> None:
        known = set(self.names)
        for name, value in self.calls[0].items():
            is_new = name[0] == "v" and name not in known and isinstance(value, torch.Tensor)
            if is_new and all(name in call for call in self.calls):
                self.names.append(name)


def joined(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items))
