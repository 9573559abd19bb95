# SPDX-License-Identifier: Apache-2.0
"""Times the contenders of a case in turns, so that all of them meet the same machine."""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import anyop
from anyop import _anyop
from anyop.bench._case import Call, Case, widened

ROUNDS = 15
ROUND_S = 2e-3
WARM_COPIES = 4
MAX_COPIES = 1024
MAX_BYTES = 1 << 30  # of all copies of one contender
OURS = "anyop"
OPPONENTS = ("numpy", "torch", "inductor")


@dataclass
class Timing:
    """Of one contender, in us per call. from_cpp: the same without Python, for ours."""

    best_us: float
    median_us: float
    matches: bool = True
    from_cpp_us: float | None = None


@dataclass
class Row:
    """A case with warm or cold caches. bound_us: the least time that this machine allows."""

    operator: str
    sizes: str
    cache: str
    threads: int
    kernel: str
    bound_us: float
    bound_by: str
    note: str
    timings: dict[str, Timing] = field(default_factory=dict)

    @property
    def ours(self) -> Timing:
        return self.timings[OURS]

    @property
    def key(self) -> str:
        return f"{self.operator} {self.sizes} {self.cache} {self.threads}"

    def ratio(self, opponent: str) -> float | None:
        """How many times as long an opponent takes; None without it, or where it is void."""
        other = self.timings.get(opponent)
        return other.best_us / self.ours.best_us if other and other.matches else None


class Contender:
    """Calls on several copies of the inputs, so that no round finds its answer in a register."""

    def __init__(self, label: str, make: Callable[[], tuple[Call, Call]], copies: int) -> None:
        self.label = label
        made = [make() for _ in range(copies)]
        self.calls = [call for call, _ in made]
        self.result = made[0][1]
        self.inner, self.turn = 1, 0
        self.seconds: list[float] = []

    def warm_up(self, is_cold: bool) -> None:
        for call in self.calls:
            call()
        start = time.perf_counter()
        self.calls[0]()
        once = max(time.perf_counter() - start, 1e-7)
        self.inner = len(self.calls) if is_cold else max(1, int(ROUND_S / once))

    def round(self, is_cold: bool) -> None:
        self.turn = (self.turn + 1) % len(self.calls)
        calls = self.calls if is_cold else [self.calls[self.turn]] * self.inner
        start = time.perf_counter()
        for call in calls:
            call()
        self.seconds.append((time.perf_counter() - start) / len(calls))

    def timing(self) -> Timing:
        return Timing(min(self.seconds) * 1e6, statistics.median(self.seconds) * 1e6)


def contenders(case: Case, opponents: Sequence[str], copies: int) -> list[Contender]:
    """Ours first; those that the case and the machine have."""

    def make(build: Callable[[SimpleNamespace], Call], convert: Any) -> tuple[Call, Call]:
        arrays = case.copies(convert)
        call = build(arrays)
        if not case.result:
            return call, call
        result = case.result
        return call, lambda: (call(), result(arrays))[1]

    found = [Contender(OURS, partial(make, case.ours, np.copy), copies)]
    for name in opponents:
        if name == "numpy" and case.numpy:
            convert = widened if case.widen else np.copy
            found.append(Contender(name, partial(make, case.numpy, convert), copies))
        elif name != "numpy" and case.torch and importlib.util.find_spec("torch"):
            from anyop.bench import _torch

            side = _torch.TorchSide(compiled=name == "inductor")
            build = partial(case.torch, side)
            found.append(Contender(name, partial(make, build, _torch.tensor_of), copies))
    return found


def measure(
    operator: str,
    case: Case,
    ceilings: Mapping[str, Any],
    opponents: Sequence[str] = OPPONENTS,
    is_cold: bool = False,
) -> Row | None:
    """Interleaved rounds. None for a cold row of a case that no cache holds anyway."""
    threads = anyop.get_num_threads()
    beyond_caches = max(b["bytes"] * b["threads"] for b in ceilings["bandwidths"])
    copies = WARM_COPIES
    if is_cold:
        if case.array_bytes >= beyond_caches:
            return None
        copies = min(math.ceil(beyond_caches / max(1, case.array_bytes)), MAX_COPIES)
    copies = max(1, min(copies, MAX_BYTES // max(1, case.array_bytes)))
    present = contenders(case, opponents, copies)
    result = present[0].result()  # once: a call may change its arguments
    matches = {c.label: agree(result, c.result(), case.tolerance) for c in present[1:]}
    kernel = kernel_of(present[0].calls[0], operator)
    for contender in present:
        contender.warm_up(is_cold)
    for _ in range(ROUNDS):
        for contender in present:
            contender.round(is_cold)
    bound_us, bound_by = bound(case, ceilings, threads, is_cold)
    cache = "cold" if is_cold else "warm"
    row = Row(operator, case.sizes, cache, threads, kernel, bound_us, bound_by, case.note)
    for contender in present:
        timing = row.timings[contender.label] = contender.timing()
        timing.matches = matches.get(contender.label, True)
    if not is_cold:
        row.ours.from_cpp_us = from_cpp(present[0])
    return row


def from_cpp(ours: Contender) -> float | None:
    """us of the same call without Python, where its results are given."""
    call = ours.calls[0]
    if not isinstance(call, partial):
        return None
    if "out" not in call.keywords and anyop.info(call.func)["results"]:
        return None
    n = max(1, ours.inner // 4)
    rounds = (_anyop.time_call(n, call.func, *call.args, **call.keywords) for _ in range(ROUNDS))
    return min(rounds) / 1e3


def kernel_of(call: Call, operator: str) -> str:
    """The kernel that runs, of the operator that the folder is named after where there are more."""
    anyop.reset_counters()
    call()
    ran = [c for c in anyop.counters() if c.calls]
    ran.sort(key=lambda c: c.op.split(".")[-1] != operator)
    return ran[0].kernel if ran else ""


def agree(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Whether the largest difference is within tolerance of the largest element."""
    first = [v[0] if isinstance(v, tuple) else v for v in (ours, theirs)]
    a, b = (np.asarray(_array(v), np.float64) for v in first)
    if a.shape != b.shape or a.size == 0:
        return False
    return bool(np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1e-30))


def _array(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().double().numpy()
    return value


def bound(
    case: Case, ceilings: Mapping[str, Any], threads: int, is_cold: bool
) -> tuple[float, str]:
    """The least time in us: the larger of movement at the cache level it fits, and arithmetic."""
    most = max(b["threads"] for b in ceilings["bandwidths"])
    used = min(threads, most)
    levels = [b for b in ceilings["bandwidths"] if b["threads"] == used]
    fits = (b for b in levels if case.array_bytes <= 2 * b["bytes"] * used)
    level = levels[-1] if is_cold else next(fits, levels[-1])
    rates = [r for r in ceilings["rates"] if r["threads"] == used]
    by_name = {r["name"]: r["gops"] for r in rates}
    gops = by_name.get(case.rate, by_name["f32 fma"])
    bandwidth = max(level["copy_gbs"], level["read_gbs"])
    move, arithmetic = case.moved / bandwidth / 1e3, case.flops / gops / 1e3
    return (move, level["level"]) if move >= arithmetic else (arithmetic, case.rate)
