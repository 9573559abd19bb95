# SPDX-License-Identifier: Apache-2.0
"""The roofline: operations per second by operations per byte, under what the machine allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from anyop.bench.measure import Row, levels_of
from anyop.bench.pictures_style import BOUND, LINE, MUTED, SMALL, WIDTH, head, threads_of

NAMES = 1.8  # inches of the column of names
CHART = 4.0  # inches of the chart's height, or more where there are many names
ALIKE = 1.5  # ceilings that differ by less share a name


def roofline(
    rows: Sequence[Row], ceilings: Mapping[str, Any], machine: Mapping[str, Any], threads: int
) -> Any:
    """Names stand in a column of their own, in the order of their points, with a line to each."""
    import matplotlib.pyplot as plt

    chart = max(CHART, LINE * (len(rows) + 1))
    figure, axis = plt.subplots(figsize=(WIDTH, chart + 1.1))
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.11, right=1 - NAMES / WIDTH, top=1 - 0.6 / height,
                           bottom=0.5 / height)  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    points = [(r.flops / r.moved, r.flops / r.ours.best_us / 1e3, r) for r in rows]
    rates = _rates(ceilings, threads)
    left, right = (min([0.1, *(x for x, _, _ in points)]) / 2,
                   max([100.0, *(x for x, _, _ in points)]) * 2)  # fmt: skip
    heights = [*rates.values(), *(y for _, y, _ in points)]
    low, high = min(*heights, max(rates.values()) / 100) / 2, max(heights) * 2.5
    axis.set_xlim(left, right)
    axis.set_ylim(low, high)
    _ceilings(axis, levels_of(ceilings, threads), rates)
    _named(axis, points, chart)
    axis.set_xlabel("operations per byte that must be moved")
    axis.set_title("billion operations per second, calls included", fontsize=SMALL, loc="left",
                   color=MUTED, pad=4, x=-0.12)  # fmt: skip
    axis.tick_params(labelsize=SMALL)
    axis.grid()
    axis.set_axisbelow(True)
    head(figure, f"Roofline, {threads_of(threads)}", f"{machine['cpu']}, {machine['date'][:10]}")
    return figure


def _rates(ceilings: Mapping[str, Any], threads: int) -> dict[str, float]:
    """What instructions allow."""
    counts = {level["threads"] for level in levels_of(ceilings, threads)}
    return {r["name"]: r["gops"] for r in ceilings["rates"] if r["threads"] in counts}


def _alike(values: Mapping[str, float]) -> dict[str, float]:
    """Values by name, the largest first; those that are nearly the same under one name."""
    found: list[tuple[list[str], float]] = []
    for name, value in sorted(values.items(), key=lambda v: -v[1]):
        if found and found[-1][1] < value * ALIKE:
            found[-1][0].append(name)
        else:
            found.append(([name], value))
    return {", ".join(names): value for names, value in found}


def _ceilings(axis: Any, levels: Sequence[Mapping[str, Any]], rates: Mapping[str, float]) -> None:
    """Lines for what caches, memory and instructions allow, with names along them."""
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    most = max(rates.values())
    box = axis.get_window_extent()
    along = math.degrees(math.atan2(box.height / math.log(high / low),
                                    box.width / math.log(right / left)))  # fmt: skip
    speeds = {level["level"]: max(level["read_gbs"], level["copy_gbs"]) for level in levels}
    for speed in speeds.values():
        axis.plot([left, most / speed], [left * speed, most], color=MUTED, linewidth=0.8)
    for name, speed in _alike(speeds).items():
        x = max(left, low / speed) * 1.3
        axis.annotate(
            f"{name} {speed:.0f} GB/s", (x, x * speed), fontsize=SMALL, color=MUTED,
            rotation=along, rotation_mode="anchor", xytext=(0, 3), textcoords="offset points",
        )  # fmt: skip
    for gops in rates.values():
        axis.axhline(gops, color=MUTED, linewidth=0.8)
    for name, gops in _alike(rates).items():
        axis.annotate(f"{name} {gops:.0f}", (right, gops), fontsize=SMALL, ha="right",
                      color=MUTED, xytext=(-2, 2), textcoords="offset points")  # fmt: skip
    axis.set_xlim(left, right)
    axis.set_ylim(low, high)


def _named(axis: Any, points: Sequence[tuple[float, float, Row]], chart: float) -> None:
    operators = list(dict.fromkeys(row.operator for _, _, row in points))
    (_, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    points = sorted(points, key=lambda p: (p[1], p[0]))
    wanted = [math.log(y / low) / math.log(high / low) for _, y, _ in points]
    places = apart(wanted, LINE * 0.92 / chart)
    for (x, y, row), place in zip(points, places, strict=True):
        colour = BOUND[operators.index(row.operator) % len(BOUND)]
        axis.scatter([x], [y], s=20, color=colour, zorder=3)
        beside = low * (high / low) ** place
        axis.plot([x, right, right * 1.25], [y, beside, beside], color=colour, linewidth=0.5,
                  alpha=0.6, clip_on=False)  # fmt: skip
        variant = row.sizes.partition("[")[0].replace(",", "").strip()
        axis.annotate(f"{row.operator} {variant}",
                      (right * 1.25, beside), fontsize=SMALL, va="center",
                      xytext=(2, 0), textcoords="offset points", annotation_clip=False)  # fmt: skip


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places from 0 to 1 at least a gap from each other, in order and as near as can be to those
    that are wanted, which rise.
    """
    crowds: list[tuple[float, int]] = []  # how far down the first of each begins, how many it has
    for n, place in enumerate(wanted):
        mean, count = place - gap * n, 1
        while crowds and crowds[-1][0] > mean:
            other, more = crowds.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        crowds.append((mean, count))
    begins = [mean for mean, count in crowds for _ in range(count)]
    last = gap * (len(wanted) - 1)
    return [min(max(begin, 0.0), 1 - last) + gap * n for n, begin in enumerate(begins)]
