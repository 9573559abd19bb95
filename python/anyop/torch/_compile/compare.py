# SPDX-License-Identifier: Apache-2.0
"""How long a program takes through torch, through Inductor and through anyop, measured in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

_BACKENDS = {"torch": "", "inductor": "inductor", "anyop": "anyop"}
_WARM_UP = 3  # calls, the compilation among them


class Comparison(list[dict[str, Any]]):
    """A row per way: its median and its least time in ms, and how many times torch's median it
    takes. str() is a table."""

    def __str__(self) -> str:
        lines = [f"{'way':10} {'ms':>10} {'of torch':>10}"]
        for row in self:
            if row["why_not"]:
                lines.append(f"{row['way']:10} {row['why_not']}")
            else:
                lines.append(f"{row['way']:10} {row['ms']:10.3f} {row['ratio']:10.2f}")
        return "\n".join(lines)

    __repr__ = __str__


class _Way:
    """One way to run the program, on arguments of its own, which it may write."""

    def __init__(self, name: str, program: Any, leaves: list[Any], spec: Any) -> None:
        self.name, self.spec = name, spec
        self.leaves = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]
        self.times: list[float] = []
        self.why_not = ""
        backend = _BACKENDS[name]
        self.call: Callable[..., Any] = (
            torch.compile(program, backend=backend) if backend else program
        )

    def run(self) -> float:
        """Seconds of one call."""
        args, kwargs = pytree.tree_unflatten(self.leaves, self.spec)
        start = time.perf_counter()
        self.call(*args, **kwargs)
        return time.perf_counter() - start

    def warm_up(self) -> None:
        try:
            for _ in range(_WARM_UP):
                self.run()
        except Exception as error:  # no compiler for Inductor, for instance
            self.why_not = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def compare(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rounds: int) -> Comparison:
    """See anyop.torch.compare."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    ways = [_Way(name, program, leaves, spec) for name in _BACKENDS]
    with torch.no_grad():
        for way in ways:
            way.warm_up()
        for i in range(rounds):
            # The first way changes from round to round: none always follows the same other one.
            for way in ways[i % len(ways) :] + ways[: i % len(ways)]:
                if not way.why_not:
                    way.times.append(way.run())
    eager = statistics.median(ways[0].times) if ways[0].times else float("nan")
    rows = Comparison()
    for way in ways:
        middle = statistics.median(way.times) if way.times else float("nan")
        least = min(way.times, default=float("nan"))
        rows.append({"way": way.name, "ms": middle * 1e3, "ratio": middle / eager,
                     "least_ms": least * 1e3, "why_not": way.why_not})  # fmt: skip
    return rows
