# SPDX-License-Identifier: Apache-2.0
"""Times calls in turns, so that all of them meet the same machine."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

ROUNDS, CALLS = 40, 2000
# A row's name: "that chain" is the row before, many calls in one program.
EACH = "each call of that chain after the first"


class Row(NamedTuple):
    """A call, its least time, and the row that it is compared with ("": with none)."""

    what: str
    ns: float
    beside: str
    ratio: float | None


def chain(add: Callable[..., Any], n: int) -> Callable[..., Any]:
    """A program of n calls, each of the result before."""

    def run(x: Any, y: Any) -> Any:
        for _ in range(n):
            x = add(x, y)
        return x

    return run


# What is shown, the Python statement, the row that it is compared with.
Statement = tuple[str, str, str]


def interleave(
    statements: Sequence[Statement], names: dict[str, Any], calls: int = CALLS, rounds: int = ROUNDS
) -> list[Row]:
    """Minimum over rounds; the loop's own time is taken off. calls: of a round, some 2 ms at most,
    since on a busy machine what takes longer never has its core to itself.
    """
    timers = {what: timeit.Timer(code, globals=names) for what, code, _ in statements}
    loop = timeit.Timer("None")
    best = dict.fromkeys(timers, float("inf"))
    empty = float("inf")
    for _ in range(rounds):
        empty = min(empty, loop.timeit(calls))
        for what, timer in timers.items():
            best[what] = min(best[what], timer.timeit(calls))
    ns = {what: (seconds - empty) / calls * 1e9 for what, seconds in best.items()}
    return [
        Row(
            what,
            round(ns[what], 1),
            beside,
            round(ns[what] / ns[beside], 3) if beside else None,
        )
        for what, _, beside in statements
    ]
