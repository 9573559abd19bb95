# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: the times beside the opponents', shares of the ceilings, the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyop
from anyop.bench.measure import OURS, Row, levels_of
from anyop.bench.runs import Run

COLOURS = {
    "numpy": "#8c8c8c", "torch": "#d9822b", "inductor": "#a3502a", "vllm": "#7a5195",
    "llama": "#3a8f5c", OURS: "#1f6fb2",
}  # fmt: skip
LOST = "#b00020"
PER_PAGE = 36
MARKERS = "os^Dvp*XP<>hd8H1234+x" * 4


def plot(run: Run, folder: Path) -> list[Path]:
    """Writes bars.png (bars-2.png, ... of more rows), bound.png and, of each number of threads,
    roofline.png (roofline-1.png, ...); returns their paths."""
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
    with_work = [r for r in run.rows if r.flops and r.moved]
    counts = sorted({r.threads for r in with_work})
    for threads in counts:
        name = "roofline.png" if len(counts) == 1 else f"roofline-{threads}.png"
        made.append(folder / name)
        rows = [r for r in with_work if r.threads == threads]
        _roofline(rows, run.ceilings, run.machine, threads, made[-1])
    return made


def _title(machine: dict[str, Any]) -> str:
    return f"{machine['cpu']}, {_threads(machine['threads'])}, {machine['date'][:10]}"


def _threads(n: int) -> str:
    return f"{n} thread{'s' * (n > 1)}"


def _label(row: Row, rows: Sequence[Row]) -> str:
    """With what tells it from the others."""
    label = f"{row.operator}  {row.sizes}"
    if len({r.cache for r in rows}) > 1:
        label += f", {row.cache}"
    if len({r.threads for r in rows}) > 1:
        label += f", {_threads(row.threads)}"
    return label


def _verdict(row: Row, names: Sequence[str]) -> str:
    if any(not t.matches for t in row.timings.values()):
        return " (differs)"
    return " (lost)" if any((row.ratio(name) or 1) < 1 for name in names) else ""


def _bars(rows: Sequence[Row], machine: dict[str, Any], path: Path) -> None:
    """How many times as long each opponent takes: beyond 1 it is slower than anyop."""
    import matplotlib.pyplot as plt

    names = [n for n in COLOURS if n != OURS and any(n in r.timings for r in rows)]
    figure, axis = plt.subplots(figsize=(11, 2 + 0.2 * len(rows) * (len(names) + 1) / 2))
    height = 0.8 / max(1, len(names))
    for k, name in enumerate(names):
        ratios = [(i, r.ratio(name)) for i, r in enumerate(rows)]
        found = [(i + k * height, ratio) for i, ratio in ratios if ratio is not None]
        if found:
            at, length = zip(*found, strict=True)
            beyond = [x - 1 for x in length]  # bars of lost rows go to the left
            bars = axis.barh(at, beyond, height, left=1, color=COLOURS[name], label=name)
            for bar, x in zip(bars, length, strict=True):
                axis.annotate(
                    f"{x:.3g}", (x, bar.get_y() + height / 2), xytext=(3 if x >= 1 else -3, 0),
                    textcoords="offset points", ha="left" if x >= 1 else "right", va="center",
                    fontsize=6, color="black" if x >= 1 else LOST,
                )  # fmt: skip
    axis.axvline(1, color=COLOURS[OURS], linewidth=2, label=OURS)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    axis.set_xlim(min(0.5, low / 1.2), high * 1.2)  # room for the numbers
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("time of the opponent / time of anyop (right of the line anyop is faster)")
    axis.set_yticks([i + 0.4 - height / 2 for i in range(len(rows))])
    axis.set_yticklabels([_label(r, rows) + _verdict(r, names) for r in rows], fontsize=7)
    for row, text in zip(rows, axis.get_yticklabels(), strict=True):
        text.set_color(LOST if _verdict(row, names) else "black")
    axis.set_ylim(len(rows), -0.5)
    axis.grid(axis="x", which="both", alpha=0.25)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
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
    for group, marker in zip(groups, MARKERS, strict=False):
        mine = [r for r in rows if r.bound_by == group]
        share = [_share(r) for r in mine]
        points = axis.scatter([r.bound_us for r in mine], share, marker=marker, s=28, alpha=0.8)
        points.set_label(f"bound by {group}")
    axis.axhline(100, color="black", linewidth=1)
    axis.set_xscale("log")
    axis.set_ylim(0, 110)  # what is faster than a ceiling met a faster cache
    axis.margins(x=0.12)
    axis.set_xlabel("least time on this machine, us (bytes / bandwidth, or operations / rate)")
    axis.set_ylabel("share of the ceiling reached, %")
    axis.grid(alpha=0.25)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    axis.set_title(f"How near each call comes to the machine's ceilings\n{_title(machine)}",
                   fontsize=10)  # fmt: skip
    figure.tight_layout()
    _name_points(figure, axis, [(r.bound_us, _share(r), _label(r, rows)) for r in rows])
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _name_points(figure: Any, axis: Any, points: Sequence[tuple[float, float, str]]) -> None:
    """A name where it covers no other and is not cut off; the lowest points come first."""
    renderer = figure.canvas.get_renderer()
    frame = axis.get_window_extent(renderer)
    taken: list[Any] = []
    for x, y, name in sorted(points, key=lambda p: p[1]):
        for right in (True, False):
            text = axis.annotate(
                name, (x, y), fontsize=5, alpha=0.8, xytext=(4 if right else -4, 0),
                textcoords="offset points", ha="left" if right else "right", va="center",
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            is_inside = frame.containsx(box.x0) and frame.containsx(box.x1)
            if is_inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def _roofline(
    rows: Sequence[Row], ceilings: Mapping[str, Any], machine: dict[str, Any], threads: int,
    path: Path,
) -> None:  # fmt: skip
    """Operations per second by operations per byte, under what memory and instructions allow."""
    import matplotlib.pyplot as plt

    levels = levels_of(ceilings, threads)
    rates = [r for r in ceilings["rates"] if r["threads"] == levels[0]["threads"]]
    most = max(r["gops"] for r in rates)
    intensity = [r.flops / r.moved for r in rows]
    left, right = min([0.1, *intensity]) / 2, max([100.0, *intensity]) * 2
    figure, axis = plt.subplots(figsize=(10, 6.5))
    for i, level in enumerate(levels):
        speed = max(level["read_gbs"], level["copy_gbs"])
        axis.plot([left, most / speed], [left * speed, most], color="grey", linewidth=1)
        x = left * 2.5**i  # names of caches as fast as each other stay apart
        axis.annotate(f"{level['level']} {speed:.0f} GB/s", (x, x * speed), fontsize=7,
                      rotation=31, rotation_mode="anchor", xytext=(6, 7),
                      textcoords="offset points")  # fmt: skip
    speeds: dict[int, list[str]] = {}
    for rate in rates:
        speeds.setdefault(round(rate["gops"], -1), []).append(rate["name"])
    for gops, names in speeds.items():
        axis.axhline(gops, color="black", linewidth=1)
        axis.annotate(f"{', '.join(names)}: {gops:.0f}", (right, gops), fontsize=7,
                      ha="right", xytext=(-4, 3), textcoords="offset points")  # fmt: skip
    for name, marker in zip(sorted({r.operator for r in rows}), MARKERS, strict=False):
        mine = [r for r in rows if r.operator == name]
        reached = [r.flops / r.ours.best_us / 1e3 for r in mine]
        at = [r.flops / r.moved for r in mine]
        axis.scatter(at, reached, marker=marker, s=26, alpha=0.8, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(left, right)
    axis.set_xlabel("operations per byte that must be moved")
    axis.set_ylabel("billion operations per second, calls included")
    axis.grid(alpha=0.25, which="both")
    columns = 1 + len({r.operator for r in rows}) // 12
    axis.legend(loc="lower right", fontsize=7, ncols=columns)
    axis.set_title(f"Roofline, {_threads(threads)}\n{machine['cpu']}, {machine['date'][:10]}",
                   fontsize=10)  # fmt: skip
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
