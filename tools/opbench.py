# SPDX-License-Identifier: Apache-2.0
"""What the ops/<name>/bench.py files are written with, and how they are timed.

A file defines `cases()`, which yields Case objects; each runs anyop and NumPy on the same inputs,
a gradient anyop and torch.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyop
import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
ROUNDS = 15
ROUND_S = 2e-3


@dataclass
class Case:
    """sizes: as people read it. moved: bytes read and written at least once. flops: of the formula.

    `ours` and `numpy` run one call on inputs made before; both return the result, which must agree
    within `tolerance` (relative to the largest element), else the row is void. numpy may be None.
    """

    sizes: str
    ours: Callable[[], Any]
    numpy: Callable[[], Any] | None
    moved: int
    flops: int = 0
    tolerance: float = 1e-2
    note: str = ""


@dataclass
class Row:
    operator: str
    sizes: str
    ours_us: float
    numpy_us: float | None
    bound_us: float
    bound_by: str
    matches: bool
    note: str = ""


@dataclass
class Timer:
    call: Callable[[], Any]
    inner: int = 1
    best: float = field(default=float("inf"))

    def warm_up(self) -> None:
        self.call()
        start = time.perf_counter()
        self.call()
        once = max(time.perf_counter() - start, 1e-7)
        self.inner = max(1, int(ROUND_S / once))

    def round(self) -> None:
        start = time.perf_counter()
        for _ in range(self.inner):
            self.call()
        self.best = min(self.best, (time.perf_counter() - start) / self.inner)


def gradient_case(
    sizes: str,
    ours: Callable[[], Any],
    forward: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    dy: np.ndarray,
    moved: int,
    flops: int,
) -> Case:
    """A gradient beside torch's: of forward(torch.nn.functional, *inputs). ours returns the first.

    Without torch the row has anyop alone.
    """
    if not importlib.util.find_spec("torch"):
        return Case(f"gradient, {sizes}", ours, None, moved, flops)
    import torch

    def tensor(a: np.ndarray) -> torch.Tensor:
        if a.dtype == BF16:
            return torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(a)

    torch.set_num_threads(anyop.get_num_threads())
    tensors = [tensor(a) for a in inputs]
    wanted = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    y, gradient = forward(torch.nn.functional, *tensors), tensor(dy)
    return Case(
        f"gradient, {sizes}, beside torch",
        ours,
        lambda: torch.autograd.grad(y, wanted, gradient, retain_graph=True)[0],
        moved,
        flops,
    )


def agree(ours: Any, theirs: Any, tolerance: float) -> bool:
    if hasattr(theirs, "detach"):
        theirs = theirs.detach().double().numpy()
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape or a.size == 0:
        return False
    return bool(np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1e-30))


def bound(case: Case, ceilings: dict[str, Any]) -> tuple[float, str]:
    """The least time in us: the larger of movement at the cache level it fits, and arithmetic."""
    threads = max(b["threads"] for b in ceilings["bandwidths"])
    levels = [b for b in ceilings["bandwidths"] if b["threads"] == threads]
    level = next((b for b in levels if case.moved <= 2 * b["bytes"] * threads), levels[-1])
    fma = max(r["gops"] for r in ceilings["rates"] if r["name"] == "f32 fma")
    move = case.moved / level["copy_gbs"] / 1e3
    math = case.flops / fma / 1e3
    return (move, f"{level['level']} copy") if move >= math else (math, "FMA")


def measure(operator: str, case: Case, ceilings: dict[str, Any]) -> Row:
    """Interleaved rounds, minimum of each."""
    matches = case.numpy is None or agree(case.ours(), case.numpy(), case.tolerance)
    timers = [Timer(case.ours)] + ([Timer(case.numpy)] if case.numpy else [])
    for timer in timers:
        timer.warm_up()
    for _ in range(ROUNDS):
        for timer in timers:
            timer.round()
    least, by = bound(case, ceilings)
    numpy_us = timers[1].best * 1e6 if case.numpy else None
    return Row(operator, case.sizes, timers[0].best * 1e6, numpy_us, least, by, matches, case.note)


def load_cases(root: Path, only: list[str]) -> Iterator[tuple[str, Case]]:
    for path in sorted((root / "ops").glob("*/bench.py")):
        name = path.parent.name
        if only and name not in only:
            continue
        spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for case in module.cases():
            yield name, case
