# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: times beside the opponents', shares of the ceilings, the roofline.

They are as wide as a phone can show and a page can hold. A name stands above its bars, so that none
is cut and none covers another. An SVG follows the page that shows it into the dark.
"""

from __future__ import annotations

import importlib.util
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
from anyop.bench import models
from anyop.bench.measure import OURS, Row
from anyop.bench.pictures_roofline import roofline
from anyop.bench.pictures_style import (
    BOUND,
    INK,
    LINE,
    LOST,
    SMALL,
    WIDTH,
    colour_of,
    drawing,
    head,
    label_of,
    opponents_of,
    save,
    threads_of,
    title_of,
)  # fmt: skip
from anyop.bench.runs import Run

PER_PAGE = 24
MOST_SHARE = 200.0  # of a ceiling; longer bars would leave the others no room


@dataclass(frozen=True)
class Bar:
    """A bar of a group: its length, the number beside it, and the range that it stands for."""

    length: float
    colour: str
    text: str
    is_lost: bool = False
    least: float = 0.0
    most: float = 0.0


@dataclass(frozen=True)
class Group:
    """The bars below a name."""

    name: str
    bars: Sequence[Bar]
    is_lost: bool = False


def require() -> None:
    """NotAvailable without matplotlib: before a run that shall be drawn, not after it."""
    if not importlib.util.find_spec("matplotlib"):
        raise anyop.NotAvailable("bench: pictures need matplotlib. Try: pip install matplotlib")


def plot(run: Run, folder: Path, kind: str = "png", each: bool = False) -> list[Path]:
    """Writes the pictures that docs/bench.md shows, and their numbers as a page; returns their
    paths. kind: png or svg. each: also of each operator alone. Raises NotAvailable without
    matplotlib.
    """
    require()
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with drawing():
        figures = itertools.chain(_figures(run), _each(run) if each else ())
        for name, figure in figures:
            path = folder / f"{name}.{kind}"
            save(figure, path)
            made.append(path)
    numbers = folder / "rows.md"
    numbers.write_text(rows_page(run), encoding="utf-8")
    return [*made, numbers]


def _figures(run: Run) -> Iterator[tuple[str, Any]]:
    of_models = [r for r in run.rows if models.is_of_a_model(r)]
    for phase, name in ((models.DECODE, "tokens"), (models.PREFILL, "prompt")):
        if mine := [r for r in of_models if r.sizes.startswith(phase)]:
            yield name, _tokens(mine, run.machine, phase)
    of_operators = [r for r in run.rows if r not in of_models]
    with_opponent = [r for r in of_operators if len(r.timings) > 1]
    if with_opponent:
        yield "summary", _summary(with_opponent, run.machine)
    for n, rows in enumerate(_pages(with_opponent)):
        yield "bars" if n == 0 else f"bars-{n + 1}", _beside(rows, run.machine)
    for n, rows in enumerate(_pages(of_operators)):
        yield "bound" if n == 0 else f"bound-{n + 1}", _shares(rows, run.machine)
    with_work = [r for r in of_operators if r.flops and r.moved]
    counts = sorted({r.threads for r in with_work})
    for threads in counts:
        name = "roofline" if len(counts) == 1 else f"roofline-{threads}"
        rows = _largest([r for r in with_work if r.threads == threads])
        yield name, roofline(rows, run.ceilings, run.machine, threads)


def _each(run: Run) -> Iterator[tuple[str, Any]]:
    """For the page of an operator: its rows beside their opponents."""
    for operator in dict.fromkeys(r.operator for r in run.rows):
        rows = [r for r in run.rows if r.operator == operator and len(r.timings) > 1]
        if rows:
            yield f"of-{operator}", _beside(rows, run.machine, operator)


def _largest(rows: Sequence[Row]) -> list[Row]:
    """Of each operator and dtype the row with the most operations, of its first variant: gradients
    and calls in place lie where their operator does.
    """
    found: dict[tuple[str, str], Row] = {}
    variants: dict[tuple[str, str], str] = {}
    for row in rows:
        variant = row.sizes.partition("[")[0].strip()
        key = (row.operator, variant.rpartition(" ")[2])
        if variants.setdefault(key, variant) != variant:
            continue
        if key not in found or row.flops > found[key].flops:
            found[key] = row
    return list(found.values())


def _pages(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[i : i + PER_PAGE] for i in range(0, len(rows), PER_PAGE)]


def _groups(
    groups: Sequence[Group], legend: Mapping[str, str], title: str, subtitle: str, start: float,
    mark: float | None,
) -> tuple[Any, Any]:  # fmt: skip
    """Bars below the names of their groups; start: the length that is drawn as nothing; mark: where
    a line is drawn beside the bars, not through the names; None: nowhere.
    """
    import matplotlib.pyplot as plt

    lines = sum(1.35 + len(g.bars) for g in groups)
    figure, axis = plt.subplots(figsize=(WIDTH, lines * LINE + 1.55))
    y = 0.0
    names = axis.get_yaxis_transform()  # x of the frame, y of the data
    for group in groups:
        colour = LOST if group.is_lost else INK
        axis.text(0, y, group.name, transform=names, va="center", fontsize=8, color=colour)
        if mark is not None:
            ends = [y + 0.5, y + 0.5 + len(group.bars)]
            axis.plot([mark, mark], ends, color=colour_of(OURS), linewidth=1.6, zorder=3)
        for bar in group.bars:
            y += 1
            _draw(axis, bar, y, start)
        y += 1.35
    axis.set_ylim(y - 0.5, -0.8)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x")
    axis.set_axisbelow(True)
    for name, colour in legend.items():  # bars without a length, for the legend alone
        axis.barh([0], [0], left=start, color=colour, label=name)
    head(figure, title, subtitle)
    height = figure.get_figheight()
    figure.legend(loc="upper left", bbox_to_anchor=(0.0, 1 - 0.42 / height), ncols=3,
                  fontsize=SMALL, handlelength=1.2)  # fmt: skip
    figure.subplots_adjust(left=0.03, right=0.97, top=1 - 0.78 / height, bottom=0.55 / height)
    return figure, axis


def _draw(axis: Any, bar: Bar, y: float, start: float) -> None:
    axis.barh([y], [bar.length - start], 0.78, left=start, color=bar.colour)
    end = max(bar.length, bar.most, start)
    if bar.most > bar.least:
        axis.plot([bar.least, bar.most], [y, y], color=INK, linewidth=0.8)
    axis.annotate(
        bar.text, (end, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=SMALL,
        color=LOST if bar.is_lost else INK,
    )  # fmt: skip


def _as_ratios(axis: Any, groups: Sequence[Group]) -> None:
    ends = [x for g in groups for b in g.bars for x in (b.length, b.least or b.length, b.most)]
    low, high = min([0.8, *filter(None, ends)]), max([2.0, *ends])
    axis.set_xscale("log")
    axis.set_xlim(low / 1.1, high * (high / low) ** 0.12)  # room for the numbers
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("time of the opponent / time of anyop; right of the line anyop is faster")


def _summary(rows: Sequence[Row], machine: Mapping[str, Any]) -> Any:
    """For each operator the median over its sizes, and a line from the least to the most."""
    groups, names = [], opponents_of(rows)
    for operator in dict.fromkeys(r.operator for r in rows):
        bars = []
        for name in names:
            mine = [r.ratio(name) for r in rows if r.operator == operator and name in r.timings]
            found = [ratio for ratio in mine if ratio]
            if found:
                middle = statistics.median(found)
                bars.append(Bar(middle, colour_of(name), f"{middle:.2g}", middle < 1, min(found),
                                max(found)))  # fmt: skip
        groups.append(Group(operator, bars, any(b.is_lost for b in bars)))
    figure, axis = _groups(groups, {n: colour_of(n) for n in names},
                           "Operators beside their opponents, median over sizes", title_of(machine),
                           1.0, 1.0)  # fmt: skip
    _as_ratios(axis, groups)
    return figure


def _beside(rows: Sequence[Row], machine: Mapping[str, Any], operator: str = "") -> Any:
    """How many times as long each opponent takes: beyond 1 it is slower than anyop. operator: of
    all rows, which need not say it.
    """
    groups, names = [], opponents_of(rows)
    for row in rows:
        ratios = [(n, row.ratio(n)) for n in names if n in row.timings]
        bars = [Bar(x, colour_of(n), f"{x:.3g}", x < 1) for n, x in ratios if x is not None]
        differs = any(not t.matches for t in row.timings.values())
        is_lost = differs or any(b.is_lost for b in bars)
        name = label_of(row, rows).removeprefix(operator).strip()
        name += " (differs)" if differs else " (lost)" if is_lost else ""
        groups.append(Group(name, bars, is_lost))
    colours = {n: colour_of(n) for n in names}
    title = f"{operator or 'Operators'} beside {'its' if operator else 'their'} opponents"
    figure, axis = _groups(groups, colours, title, title_of(machine), 1.0, 1.0)
    _as_ratios(axis, groups)
    return figure


def _tokens(rows: Sequence[Row], machine: Mapping[str, Any], phase: str) -> Any:
    """Tokens per second of a model, ours and the opponents' with the same weights and threads."""
    names = [OURS, *opponents_of(rows)]
    groups = []
    several = len({r.operator for r in rows}) > 1
    for row in rows:
        speeds = {n: 1e6 / row.timings[n].best_us for n in names if n in row.timings}
        bars = [
            Bar(x, colour_of(n), in_tokens(x), not row.timings[n].matches)
            for n, x in speeds.items()
        ]
        sizes = row.sizes.removeprefix(phase).strip()
        name = f"{row.operator}  {sizes}" if several else sizes
        is_lost = speeds[OURS] < max(speeds.values())
        name += f", {threads_of(row.threads)}" + (" (lost)" if is_lost else "")
        groups.append(Group(name, bars, is_lost))
    what = {models.DECODE: "generates", models.PREFILL: "reads of a prompt"}[phase]
    model = rows[0].operator if not several else "A model"
    figure, axis = _groups(groups, {n: colour_of(n) for n in names}, f"What {model} {what}",
                           f"{machine['cpu']}, {machine['date'][:10]}", 0.0, None)  # fmt: skip
    axis.set_xlim(0, 1.16 * max(b.length for g in groups for b in g.bars))
    axis.set_xlabel("tokens per second; longer is faster")
    return figure


def in_tokens(speed: float) -> str:
    """Tokens per second with the digits that a measurement has: 2.31, 87.5, 1,024."""
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _share(row: Row) -> float:
    return 100 * row.bound_us / row.ours.best_us


def _percent(row: Row) -> str:
    """An arrow says that the bar would go on beyond the picture."""
    return f"{_share(row):.0f} %{' →' * (_share(row) > MOST_SHARE)}"


def _shares(rows: Sequence[Row], machine: Mapping[str, Any]) -> Any:
    """The least time that the measured ceilings allow for each call, over the time that it took."""
    limits = sorted({r.bound_by for r in rows})
    colours = {limit: BOUND[i % len(BOUND)] for i, limit in enumerate(limits)}
    groups = [
        Group(
            label_of(r, rows), [Bar(min(_share(r), MOST_SHARE), colours[r.bound_by], _percent(r))]
        )
        for r in rows
    ]
    figure, axis = _groups(groups, {f"bound by {n}": c for n, c in colours.items()},
                           "How near each call comes to the machine's ceilings", title_of(machine),
                           0.0, 100.0)  # fmt: skip
    # Beyond 100 a call met a faster cache, or its ceiling was measured in a worse moment.
    axis.set_xlim(0, 1.16 * min(MOST_SHARE, max(100.0, *(_share(r) for r in rows))))
    axis.set_xlabel("share of the ceiling reached, %")
    return figure


def rows_page(run: Run) -> str:
    """The numbers behind the pictures, as Markdown."""
    of_models = [r for r in run.rows if models.is_of_a_model(r)]
    if of_models and len(of_models) == len(run.rows):
        return tokens_page(run)
    names = opponents_of(run.rows)
    heads = "".join(f" x {name} |" for name in names)
    lines = [
        "# The numbers of a run", "",
        f"{title_of(run.machine)}. Times are of calls from Python, the best of interleaved "
        "rounds; a ratio is the opponent's time over ours; share: of the least time that the "
        "machine's ceilings allow.", "",
        f"| operator | sizes | us |{heads} share |", f"|---|---|---|{'---|' * len(names)}---|",
    ]  # fmt: skip
    for row in run.rows:
        sizes = label_of(row, run.rows).removeprefix(row.operator).strip()
        cells = "".join(_cell(row, name) for name in names)
        share = f"{_share(row):.0f} % {row.bound_by}"
        lines.append(f"| {row.operator} | {sizes} | {in_us(row.ours.best_us)} |{cells} {share} |")
    return "\n".join(lines) + "\n"


def tokens_page(run: Run) -> str:
    """The same of a model."""
    names = opponents_of(run.rows)
    heads = "".join(f" {name} |" for name in names)
    lines = [
        "# The numbers of a model", "",
        f"{run.machine['cpu']}, {run.machine['date'][:10]}. Tokens per second: the best of "
        "interleaved rounds, and in brackets how many times as fast anyop is.", "",
        f"| what | threads | anyop |{heads}", f"|---|---|---|{'---|' * len(names)}",
    ]  # fmt: skip
    for row in run.rows:
        cells = [_speed(row, name) for name in names]
        ours = in_tokens(1e6 / row.ours.best_us)
        lines.append(" | ".join([f"| {row.operator}, {row.sizes}", str(row.threads), ours, *cells])
                     + " |")  # fmt: skip
    return "\n".join(lines) + "\n"


def _speed(row: Row, name: str) -> str:
    if name not in row.timings:
        return "-"
    ratio = row.ratio(name)
    beside = f" ({ratio:.2g})" if ratio else " (another result)"
    return in_tokens(1e6 / row.timings[name].best_us) + beside


def in_us(us: float) -> str:
    """Microseconds with the digits that a measurement has: 0.515, 12.3, 53,735."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def _cell(row: Row, name: str) -> str:
    ratio = row.ratio(name) if name in row.timings else None
    return f" {ratio:.3g} |" if ratio else " - |"
