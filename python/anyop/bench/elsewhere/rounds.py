# SPDX-License-Identifier: Apache-2.0
"""Rounds of one contender's calls; the same code in every interpreter, so it imports no anyop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ROUND_S = 2e-3
Call = Callable[[], Any]


class Rounds:
    """Calls on several copies of the inputs, so that no round finds its answer in a register."""

    def __init__(self, calls: list[Call], round_s: float = ROUND_S) -> None:
        self.calls, self.round_s = calls, round_s
        self.inner, self.turn = 1, 0

    def warm_up(self, is_cold: bool) -> None:
        for call in self.calls:
            call()
        start = time.perf_counter()
        self.calls[0]()
        once = max(time.perf_counter() - start, 1e-7)
        self.inner = len(self.calls) if is_cold else max(1, int(self.round_s / once))

    def round(self, is_cold: bool) -> float:
        """Seconds of a call."""
        self.turn = (self.turn + 1) % len(self.calls)
        calls = self.calls if is_cold else [self.calls[self.turn]] * self.inner
        start = time.perf_counter()
        for call in calls:
            call()
        return (time.perf_counter() - start) / len(calls)
