# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: times beside the opponents', shares of the ceilings, the roofline.

They are as wide as a phone can show and a page can hold. A name stands above its bars, so that none
is cut and none covers another. An SVG follows the page that shows it into the dark.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
from anyop.bench.measure import OURS, Row, levels_of
from anyop.bench.runs import Run

COLOURS = {
    "numpy": "#8c8c8c", "torch": "#d9822b", "inductor": "#a3502a", "vllm": "#7a5195",
    "llama": "#3a8f5c", OURS: "#1f6fb2",
}  # fmt: skip
BOUND = ("#1f6fb2", "#d9822b", "#3a8f5c", "#7a5195", "#a3502a", "#0d9488", "#b8860b", "#8c8c8c")
LOST, INK, MUTED, GRID = "#b00020", "#1f2430", "#5b6270", "#d5d8de"
IN_THE_DARK = {LOST: "#ff8a95", INK: "#e4e6ea", MUTED: "#a4abb8", GRID: "#3b414d"}
WIDTH = 4.6  # inches, of 96 pixels in an SVG: a phone shows four fifths of them
LINE = 0.165  # inches of a line of text, or of a bar
PER_PAGE = 24
MOST_SHARE = 200.0  # of a ceiling; longer bars would leave the others no room
# fonttype: names stay text, which _dark_style colours. hashsalt: the same run makes the same names
# of parts.
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "anyop", "font.size": 8, "text.color": INK,
    "font.family": "sans-serif", "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "axes.spines.right": False, "axes.spines.top": False, "grid.color": GRID,
    "grid.linewidth": 0.6, "legend.frameon": False, "xtick.color": MUTED, "ytick.color": MUTED,
}  # fmt: skip


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


def plot(run: Run, folder: Path, kind: str = "png") -> list[Path]:
    """Writes the pictures that docs/bench.md shows, and their numbers as a page; returns their
    paths. kind: png or svg. Raises NotAvailable without matplotlib.
    """
    require()
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with _drawing():
        for name, figure in _figures(run):
            path = folder / f"{name}.{kind}"
            _save(figure, path)
            made.append(path)
    numbers = folder / "rows.md"
    numbers.write_text(rows_page(run), encoding="utf-8")
    return [*made, numbers]


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    import matplotlib

    matplotlib.use("Agg")  # files, no window
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type, unused-ignore]
        yield


def _figures(run: Run) -> Iterator[tuple[str, Any]]:
    with_opponent = [r for r in run.rows if len(r.timings) > 1]
    if with_opponent:
        yield "summary", _summary(with_opponent, run.machine)
    for n, rows in enumerate(_pages(with_opponent)):
        yield "bars" if n == 0 else f"bars-{n + 1}", _beside(rows, run.machine)
    for n, rows in enumerate(_pages(run.rows)):
        yield "bound" if n == 0 else f"bound-{n + 1}", _shares(rows, run.machine)
    with_work = [r for r in run.rows if r.flops and r.moved]
    counts = sorted({r.threads for r in with_work})
    for threads in counts:
        name = "roofline" if len(counts) == 1 else f"roofline-{threads}"
        rows = _largest([r for r in with_work if r.threads == threads])
        yield name, _roofline(rows, run.ceilings, run.machine, threads)


def _largest(rows: Sequence[Row]) -> list[Row]:
    """Of each operator and what stands before its sizes the row with the most operations."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row.operator, row.sizes.partition("[")[0].strip())
        if key not in found or row.flops > found[key].flops:
            found[key] = row
    return list(found.values())


def _pages(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[i : i + PER_PAGE] for i in range(0, len(rows), PER_PAGE)]


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    is_svg = path.suffix == ".svg"
    # Without a date the same run makes the same file.
    metadata = {"Date": None} if is_svg else {}
    figure.savefig(path, dpi=150, transparent=is_svg, metadata=metadata)
    plt.close(figure)
    if is_svg:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("<defs>", f"{_dark_style()}<defs>", 1), encoding="utf-8")


def _dark_style() -> str:
    """A picture that a page shows has the page's colours, dark or light."""
    rules = f"text{{fill:{IN_THE_DARK[INK]}}}"
    for light, dark in IN_THE_DARK.items():
        rules += f'[style*="fill: {light}"]{{fill:{dark}!important}}'
        rules += f'[style*="stroke: {light}"]{{stroke:{dark}!important}}'
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


def _title(machine: Mapping[str, Any]) -> str:
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


def _groups(
    groups: Sequence[Group], legend: Mapping[str, str], title: str, subtitle: str, start: float,
    mark: float,
) -> tuple[Any, Any]:  # fmt: skip
    """Bars below the names of their groups; start: the length that is drawn as nothing; mark: where
    a line is drawn beside the bars, not through the names.
    """
    import matplotlib.pyplot as plt

    lines = sum(1.35 + len(g.bars) for g in groups)
    figure, axis = plt.subplots(figsize=(WIDTH, lines * LINE + 1.55))
    y = 0.0
    names = axis.get_yaxis_transform()  # x of the frame, y of the data
    for group in groups:
        colour = LOST if group.is_lost else INK
        axis.text(0, y, group.name, transform=names, va="center", fontsize=7.5, color=colour)
        ends = [y + 0.5, y + 0.5 + len(group.bars)]
        axis.plot([mark, mark], ends, color=COLOURS[OURS], linewidth=1.6, zorder=3)
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
    figure.suptitle(title, x=0.02, y=1 - 0.08 / figure.get_figheight(), ha="left", va="top",
                    fontsize=10, fontweight="bold")  # fmt: skip
    figure.text(0.02, 1 - 0.32 / figure.get_figheight(), subtitle, fontsize=7, color=MUTED,
                va="top")  # fmt: skip
    height = figure.get_figheight()
    figure.legend(loc="upper left", bbox_to_anchor=(0.0, 1 - 0.42 / height), ncols=3, fontsize=7,
                  handlelength=1.2)  # fmt: skip
    figure.subplots_adjust(left=0.03, right=0.97, top=1 - 0.78 / height, bottom=0.55 / height)
    return figure, axis


def _draw(axis: Any, bar: Bar, y: float, start: float) -> None:
    axis.barh([y], [bar.length - start], 0.78, left=start, color=bar.colour)
    end = max(bar.length, bar.most, start)
    if bar.most > bar.least:
        axis.plot([bar.least, bar.most], [y, y], color=INK, linewidth=0.8)
    axis.annotate(
        bar.text, (end, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=6.5,
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


def _opponents(rows: Sequence[Row]) -> list[str]:
    return [n for n in COLOURS if n != OURS and any(n in r.timings for r in rows)]


def _summary(rows: Sequence[Row], machine: Mapping[str, Any]) -> Any:
    """For each operator the median over its sizes, and a line from the least to the most."""
    groups, names = [], _opponents(rows)
    for operator in dict.fromkeys(r.operator for r in rows):
        bars = []
        for name in names:
            mine = [r.ratio(name) for r in rows if r.operator == operator and name in r.timings]
            found = [ratio for ratio in mine if ratio]
            if found:
                middle = statistics.median(found)
                bars.append(Bar(middle, COLOURS[name], f"{middle:.2g}", middle < 1, min(found),
                                max(found)))  # fmt: skip
        groups.append(Group(operator, bars, any(b.is_lost for b in bars)))
    figure, axis = _groups(groups, {n: COLOURS[n] for n in names},
                           "Operators beside their opponents, median over sizes", _title(machine),
                           1.0, 1.0)  # fmt: skip
    _as_ratios(axis, groups)
    return figure


def _beside(rows: Sequence[Row], machine: Mapping[str, Any]) -> Any:
    """How many times as long each opponent takes: beyond 1 it is slower than anyop."""
    groups, names = [], _opponents(rows)
    for row in rows:
        ratios = [(n, row.ratio(n)) for n in names if n in row.timings]
        bars = [Bar(x, COLOURS[n], f"{x:.3g}", x < 1) for n, x in ratios if x is not None]
        differs = any(not t.matches for t in row.timings.values())
        is_lost = differs or any(b.is_lost for b in bars)
        name = _label(row, rows) + (" (differs)" if differs else " (lost)" if is_lost else "")
        groups.append(Group(name, bars, is_lost))
    colours = {n: COLOURS[n] for n in names}
    title = "Operators beside their opponents"
    figure, axis = _groups(groups, colours, title, _title(machine), 1.0, 1.0)
    _as_ratios(axis, groups)
    return figure


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
        Group(_label(r, rows), [Bar(min(_share(r), MOST_SHARE), colours[r.bound_by], _percent(r))])
        for r in rows
    ]
    figure, axis = _groups(groups, {f"bound by {n}": c for n, c in colours.items()},
                           "How near each call comes to the machine's ceilings", _title(machine),
                           0.0, 100.0)  # fmt: skip
    # Beyond 100 a call met a faster cache, or its ceiling was measured in a worse moment.
    axis.set_xlim(0, 1.16 * min(MOST_SHARE, max(100.0, *(_share(r) for r in rows))))
    axis.set_xlabel("share of the ceiling reached, %")
    return figure


def _roofline(
    rows: Sequence[Row], ceilings: Mapping[str, Any], machine: Mapping[str, Any], threads: int
) -> Any:
    """Operations per second by operations per byte, under what memory and instructions allow."""
    import matplotlib.pyplot as plt

    operators = list(dict.fromkeys(r.operator for r in rows))
    below = 1.3 + LINE * len(rows)
    figure, axis = plt.subplots(figsize=(WIDTH, 4.4 + below))
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.15, right=0.97, top=1 - 0.6 / height, bottom=below / height)
    left, right = _ceilings(axis, rows, ceilings, threads)
    points = []
    for i, row in enumerate(rows):
        colour = BOUND[operators.index(row.operator) % len(BOUND)]
        x, y = row.flops / row.moved, row.flops / row.ours.best_us / 1e3
        axis.scatter([x], [y], s=20, color=colour, alpha=0.85)
        points.append((x, y, str(i + 1), colour))
        figure.text(0.03, (below - 0.75 - LINE * i) / height, f"{i + 1:>2}  {_label(row, rows)}",
                    fontsize=7, color=colour)  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(left, right)
    axis.set_xlabel("operations per byte that must be moved")
    axis.set_ylabel("billion operations per second, calls included")
    axis.grid()
    figure.suptitle(f"Roofline, {_threads(threads)}", x=0.02, y=1 - 0.08 / height, ha="left",
                    va="top", fontsize=10, fontweight="bold")  # fmt: skip
    figure.text(0.02, 1 - 0.32 / height, f"{machine['cpu']}, {machine['date'][:10]}", fontsize=7,
                color=MUTED, va="top")  # fmt: skip
    _name_points(figure, axis, points)
    return figure


def _ceilings(
    axis: Any, rows: Sequence[Row], ceilings: Mapping[str, Any], threads: int
) -> tuple[float, float]:
    """Lines for what caches, memory and instructions allow; the ends of the axis."""
    levels = levels_of(ceilings, threads)
    rates = [r for r in ceilings["rates"] if r["threads"] == levels[0]["threads"]]
    most = max(r["gops"] for r in rates)
    intensity = [r.flops / r.moved for r in rows]
    left, right = min([0.1, *intensity]) / 2, max([100.0, *intensity]) * 2
    for i, level in enumerate(levels):
        speed = max(level["read_gbs"], level["copy_gbs"])
        axis.plot([left, most / speed], [left * speed, most], color=MUTED, linewidth=0.8)
        x = left * 6.0**i  # names of caches as fast as each other stay apart
        axis.annotate(f"{level['level']} {speed:.0f} GB/s", (x, x * speed), fontsize=6,
                      color=MUTED, xytext=(4, 4), textcoords="offset points")  # fmt: skip
    # Rates that are nearly equal share a line, as their names would cover each other.
    speeds: dict[int, list[str]] = {}
    for rate in rates:
        speeds.setdefault(round(rate["gops"], -1), []).append(rate["name"])
    for gops, names in speeds.items():
        axis.axhline(gops, color=MUTED, linewidth=0.8)
        axis.annotate(f"{', '.join(names)}: {gops:.0f}", (right, gops), fontsize=6, ha="right",
                      color=MUTED, xytext=(-4, 2), textcoords="offset points")  # fmt: skip
    return left, right


def _name_points(figure: Any, axis: Any, points: Sequence[tuple[float, float, str, str]]) -> None:
    """A number beside each point, at the first of eight places where it covers no other."""
    renderer = figure.canvas.get_renderer()
    taken: list[Any] = []
    places = [(5, 0), (-5, 0), (0, 6), (0, -6), (6, 6), (-6, 6), (6, -6), (-6, -6)]
    for x, y, name, colour in sorted(points, key=lambda p: p[1]):
        for dx, dy in places:
            text = axis.annotate(
                name, (x, y), fontsize=6, color=colour, xytext=(dx, dy),
                textcoords="offset points", va="center",
                ha="left" if dx > 0 else "right" if dx else "center",
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken) or (dx, dy) == places[-1]:
                taken.append(box)
                break
            text.remove()


def rows_page(run: Run) -> str:
    """The numbers behind the pictures, as Markdown."""
    names = _opponents(run.rows)
    heads = "".join(f" x {name} |" for name in names)
    lines = [
        "# The numbers of a run", "",
        f"{_title(run.machine)}. Times are of calls from Python, the best of interleaved rounds; a "
        "ratio is the opponent's time over ours; share: of the least time that the machine's "
        "ceilings allow.", "",
        f"| operator | sizes | us |{heads} share |", f"|---|---|---|{'---|' * len(names)}---|",
    ]  # fmt: skip
    for row in run.rows:
        sizes = _label(row, run.rows).removeprefix(row.operator).strip()
        cells = "".join(_cell(row, name) for name in names)
        share = f"{_share(row):.0f} % {row.bound_by}"
        lines.append(f"| {row.operator} | {sizes} | {in_us(row.ours.best_us)} |{cells} {share} |")
    return "\n".join(lines) + "\n"


def in_us(us: float) -> str:
    """Microseconds with the digits that a measurement has: 0.515, 12.3, 53,735."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def _cell(row: Row, name: str) -> str:
    ratio = row.ratio(name) if name in row.timings else None
    return f" {ratio:.3g} |" if ratio else " - |"
