# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: the times beside the opponents', and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyop
from anyop.bench._measure import OURS, Row
from anyop.bench._runs import Run

COLOURS = {
    "numpy": "#8c8c8c", "torch": "#d9822b", "inductor": "#a3502a", "vllm": "#7a5195",
    "llama": "#3a8f5c", OURS: "#1f6fb2",
}  # fmt: skip
PER_PAGE = 36


def plot(run: Run, folder: Path) -> list[Path]:
    """Writes bars.png (bars-2.png, ... of more rows) and bound.png; returns their paths."""
    try:
        import matplotlib
    except ImportError:
        raise anyop.NotAvailable(
            "bench: pictures need matplotlib. Try: pip install matplotlib"
        ) from None
    matplotlib.use("Agg")  # files, no window
    folder.mkdir(parents=True, exist_ok=True)
    with_opponent = [r for r in run.rows if len(r.timings) > 1]
    pages = [with_opponent[i : i + PER_PAGE] for i in range(0, len(with_opponent), PER_PAGE)]
    made = []
    for n, rows in enumerate(pages):
        made.append(folder / ("bars.png" if n == 0 else f"bars-{n + 1}.png"))
        _bars(rows, run.machine, made[-1])
    if run.rows:
        made.append(folder / "bound.png")
        _bound(run.rows, run.machine, made[-1])
    return made


def _title(machine: dict[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['threads']} threads, {machine['date'][:10]}"


def _bars(rows: Sequence[Row], machine: dict[str, Any], path: Path) -> None:
    """How many times as long each opponent takes: beyond 1 it is slower than anyop."""
    import matplotlib.pyplot as plt

    names = [n for n in COLOURS if n != OURS and any(n in r.timings for r in rows)]
    figure, axis = plt.subplots(figsize=(11, 1.6 + 0.2 * len(rows) * (len(names) + 1) / 2))
    height = 0.8 / max(1, len(names))
    for k, name in enumerate(names):
        ratios = [(i, r.ratio(name)) for i, r in enumerate(rows)]
        found = [(i + k * height, ratio) for i, ratio in ratios if ratio is not None]
        if found:
            at, length = zip(*found, strict=True)
            axis.barh(at, length, height, color=COLOURS[name], label=name)
    axis.axvline(1, color=COLOURS[OURS], linewidth=2, label=OURS)
    axis.set_xscale("log")
    axis.set_xlim(left=min(0.2, axis.get_xlim()[0]))
    axis.set_xlabel("time of the opponent / time of anyop (right of the line anyop is faster)")
    axis.set_yticks([i + 0.4 - height / 2 for i in range(len(rows))])
    axis.set_yticklabels([f"{r.operator}  {r.sizes}  ({r.cache})" for r in rows], fontsize=7)
    axis.set_ylim(len(rows), -0.5)
    axis.grid(axis="x", which="both", alpha=0.25)
    axis.legend(loc="best")
    axis.set_title(f"Operators beside their opponents\n{_title(machine)}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _share(row: Row) -> float:
    return min(109.0, 100 * row.bound_us / row.ours.best_us)


def _bound(rows: Sequence[Row], machine: dict[str, Any], path: Path) -> None:
    """Each call's time over the least that the measured ceilings allow, by that least time."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(10, 6.5))
    groups = sorted({r.bound_by for r in rows})
    for group, marker in zip(groups, "os^Dvp*XP<>", strict=False):
        mine = [r for r in rows if r.bound_by == group]
        share = [_share(r) for r in mine]
        points = axis.scatter([r.bound_us for r in mine], share, marker=marker, s=28, alpha=0.8)
        points.set_label(f"bound by {group}")
    for r in rows:
        at = (r.bound_us, _share(r))
        axis.annotate(f"{r.operator} {r.sizes}", at, fontsize=4.5, alpha=0.7, xytext=(3, 2),
                      textcoords="offset points")  # fmt: skip
    axis.axhline(100, color="black", linewidth=1)
    axis.set_xscale("log")
    axis.set_ylim(0, 110)  # what is faster than a ceiling met a faster cache
    axis.margins(x=0.12)
    axis.set_xlabel("least time on this machine, us (bytes / bandwidth, or operations / rate)")
    axis.set_ylabel("share of the ceiling reached, %")
    axis.grid(alpha=0.25)
    axis.legend(loc="upper left")
    axis.set_title(f"How near each call comes to the machine's ceilings\n{_title(machine)}",
                   fontsize=10)  # fmt: skip
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
