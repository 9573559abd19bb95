# SPDX-License-Identifier: Apache-2.0
"""Times the contenders of a case in turns, so that all of them meet the same machine."""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import anyop
from anyop import _anyop
from anyop.bench import interpreters
from anyop.bench._case import Call, Case, aligned, widened
from anyop.bench._settle import settle
from anyop.bench.elsewhere.rounds import Rounds

if TYPE_CHECKING:
    from anyop.bench._elsewhere import RemoteContender

ROUNDS = 15
ROUND_S = 2e-3  # on a busy machine a longer round never has its core to itself
WARM_COPIES = 4
MAX_COPIES = 1024
MAX_BYTES = 1 << 30  # of all copies of one contender
OURS = "anyop"
IN_TORCH = ("torch", "inductor")
OPPONENTS = ("numpy", "torch", "inductor")  # in this interpreter


@dataclass
class Timing:
    """Times of one contender, in us per call. from_cpp_us: ours without Python."""

    best_us: float
    median_us: float
    matches: bool = True
    from_cpp_us: float | None = None


@dataclass
class Row:
    """A case with warm or cold caches. bound_us: the least time that this machine allows.
    moved, flops: the bytes and operations that it follows from."""

    operator: str
    sizes: str
    cache: str
    threads: int
    kernel: str
    bound_us: float
    bound_by: str
    note: str
    timings: dict[str, Timing] = field(default_factory=dict)
    moved: int = 0
    flops: int = 0

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
    """Calls on several copies of the inputs."""

    def __init__(self, label: str, make: Callable[[], tuple[Call, Call]], copies: int) -> None:
        self.label = label
        made = [make() for _ in range(copies)]
        self.calls = [call for call, _ in made]
        self.result = made[0][1]
        self.seconds: list[float] = []
        self._rounds = Rounds(self.calls, ROUND_S)

    @property
    def inner(self) -> int:
        return self._rounds.inner

    def warm_up(self, is_cold: bool) -> None:
        self._rounds.warm_up(is_cold)

    def round(self, is_cold: bool) -> None:
        self.seconds.append(self._rounds.round(is_cold))
        settle()


def remote_contenders(
    case: Case, opponents: Sequence[str], copies: int
) -> tuple[list[RemoteContender], list[str]]:
    """Those in other interpreters that the case has; and why there are not more."""
    found, missing = [], []
    for name in opponents:
        if name not in interpreters.OPPONENTS or name not in case.others:
            continue
        file = case.folder / f"bench_{name}.py"
        from anyop.bench._elsewhere import RemoteContender

        try:
            found.append(
                RemoteContender(name, file, case.others[name], case.arrays, copies, ROUND_S)
            )
        except anyop.NotAvailable as error:
            missing.append(str(error).removeprefix("bench: "))
    return found, missing


def contenders(case: Case, opponents: Sequence[str], copies: int) -> list[Contender]:
    """Ours first; those of this interpreter that the case and the machine have."""

    def make(build: Callable[[SimpleNamespace], Call], convert: Any) -> tuple[Call, Call]:
        arrays = case.copies(convert)
        call = build(arrays)
        if not case.result:
            return call, call
        result = case.result
        return call, lambda: (call(), result(arrays))[1]

    found = [Contender(OURS, partial(make, case.ours, aligned), copies)]
    for name in opponents:
        if name == "numpy" and case.numpy:
            convert = widened if case.widen else aligned
            found.append(Contender(name, partial(make, case.numpy, convert), copies))
        elif name in IN_TORCH and case.torch and importlib.util.find_spec("torch"):
            from anyop.bench import torch_side

            side = torch_side.TorchSide(compiled=name == "inductor")
            build = partial(case.torch, side)
            found.append(Contender(name, partial(make, build, torch_side.tensor_of), copies))
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
    copies = warm_copies(case.array_bytes, ceilings, threads)
    if is_cold:
        if case.array_bytes >= beyond_caches:
            return None
        copies = min(math.ceil(beyond_caches / max(1, case.array_bytes)), MAX_COPIES)
    copies = max(1, min(copies, MAX_BYTES // max(1, case.array_bytes)))
    ours, *others = contenders(case, opponents, copies)
    remote, missing = remote_contenders(case, opponents, copies)
    present: list[Contender | RemoteContender] = [ours, *others, *remote]
    result = ours.result()  # once: a call may change its arguments
    loose = case.tolerance if case.others_tolerance is None else case.others_tolerance
    matches = {c.label: agree(result, c.result(), case.tolerance) for c in others}
    matches |= {c.label: agree(result, c.result(), loose) for c in remote}
    kernel = kernel_of(ours.calls[0], operator)
    for contender in present:
        contender.warm_up(is_cold)
    for _ in range(ROUNDS):
        for contender in present:
            contender.round(is_cold)
    bound_us, bound_by = bound(case, ceilings, threads, is_cold)
    cache = "cold" if is_cold else "warm"
    note = "; ".join(filter(None, [case.note, *missing]))
    row = Row(
        operator, case.sizes, cache, threads, kernel, bound_us, bound_by, note,
        moved=case.moved, flops=case.flops,
    )  # fmt: skip
    for contender in present:
        us = [1e6 * s for s in contender.seconds]
        matched = matches.get(contender.label, True)
        row.timings[contender.label] = Timing(min(us), statistics.median(us), matched)
    if not is_cold:
        row.ours.from_cpp_us = from_cpp(ours)
    return row


def from_cpp(ours: Contender) -> float | None:
    """us of the same call without Python; None for a call that makes its results."""
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


def levels_of(ceilings: Mapping[str, Any], threads: int) -> list[Mapping[str, Any]]:
    """Bandwidths with this many threads, or the most that were measured; caches first."""
    used = min(threads, max(b["threads"] for b in ceilings["bandwidths"]))
    return [b for b in ceilings["bandwidths"] if b["threads"] == used]


def capacity(level: Mapping[str, Any]) -> int:
    """Bytes that a cache holds: its ceiling is measured with half of them."""
    return 2 * int(level["bytes"]) * int(level["threads"])


def level_of(
    array_bytes: int, ceilings: Mapping[str, Any], threads: int
) -> tuple[Mapping[str, Any], bool]:
    """The first level that holds the arrays, else memory; and whether it is a cache."""
    *caches, memory = levels_of(ceilings, threads)
    cache = next((b for b in caches if array_bytes <= capacity(b)), None)
    return cache or memory, cache is not None


def warm_copies(array_bytes: int, ceilings: Mapping[str, Any], threads: int) -> int:
    """How many copies stay together in the cache that holds one. More would be read from beyond it,
    while the row is compared with that cache's bandwidth.
    """
    level, is_cache = level_of(array_bytes, ceilings, threads)
    if not is_cache:
        return WARM_COPIES
    return max(1, min(WARM_COPIES, capacity(level) // max(1, array_bytes)))


def bound(
    case: Case,
    ceilings: Mapping[str, Any],
    threads: int,
    is_cold: bool,
    movements: Sequence[str] = ("copy_gbs", "read_gbs"),
) -> tuple[float, str]:
    """The least time in us: the larger of movement at the cache level it fits, and arithmetic."""
    memory = levels_of(ceilings, threads)[-1]
    level = memory if is_cold else level_of(case.array_bytes, ceilings, threads)[0]
    rates = [r for r in ceilings["rates"] if r["threads"] == memory["threads"]]
    by_name = {r["name"]: r["gops"] for r in rates}
    gops = by_name.get(case.rate, by_name["f32 fma"])
    bandwidth = max(level[kind] for kind in movements)
    move, arithmetic = case.moved / bandwidth / 1e3, case.flops / gops / 1e3
    return (move, level["level"]) if move >= arithmetic else (arithmetic, case.rate)
