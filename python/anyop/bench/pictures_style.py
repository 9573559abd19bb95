# SPDX-License-Identifier: Apache-2.0
"""How pictures of runs look: colours of the light and the dark, sizes, and what a row is called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyop.bench.measure import OURS, Row

COLOURS = {
    "numpy": "#8c8c8c", "torch": "#d9822b", "inductor": "#a3502a", "vllm": "#7a5195",
    "llama": "#3a8f5c", "transformers": "#b8860b", "autotune": "#6b4a3a", "jax": "#0d9488",
    "mindspore": "#c2417c", OURS: "#1f6fb2",
}  # fmt: skip
BOUND = ("#1f6fb2", "#d9822b", "#3a8f5c", "#7a5195", "#a3502a", "#0d9488", "#b8860b", "#8c8c8c")
LOST, INK, MUTED, GRID = "#b00020", "#1f2430", "#5b6270", "#d5d8de"
IN_THE_DARK = {LOST: "#ff8a95", INK: "#e4e6ea", MUTED: "#a4abb8", GRID: "#3b414d"}
WIDTH = 4.6  # inches, of 96 pixels in an SVG: a phone shows four fifths of them
LINE = 0.165  # inches of a line of text, or of a bar
SMALL = 7.5  # points of the smallest text, 8 pixels on a phone
# fonttype: names stay text, which dark_style colours. hashsalt: the same run makes the same names
# of parts.
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "anyop", "font.size": 8, "text.color": INK,
    "font.family": "sans-serif", "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "axes.spines.right": False, "axes.spines.top": False, "grid.color": GRID,
    "grid.linewidth": 0.6, "legend.frameon": False, "xtick.color": MUTED, "ytick.color": MUTED,
}  # fmt: skip


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Files, in the style of these pictures."""
    import matplotlib

    matplotlib.use("Agg")  # files, no window
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type, unused-ignore]
        yield


def save(figure: Any, path: Path) -> None:
    """As a PNG, or as an SVG for light and dark pages, by the file's name."""
    import matplotlib.pyplot as plt

    is_svg = path.suffix == ".svg"
    # Without a date the same run makes the same file.
    metadata = {"Date": None} if is_svg else {}
    figure.savefig(path, dpi=150, transparent=is_svg, metadata=metadata)
    plt.close(figure)
    if is_svg:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("<defs>", f"{dark_style()}<defs>", 1), encoding="utf-8")


def dark_style() -> str:
    """A picture that a page shows has the page's colours, dark or light."""
    rules = f"text{{fill:{IN_THE_DARK[INK]}}}"
    for light, dark in IN_THE_DARK.items():
        rules += f'[style*="fill: {light}"]{{fill:{dark}!important}}'
        rules += f'[style*="stroke: {light}"]{{stroke:{dark}!important}}'
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


def colour_of(contender: str) -> str:
    """A way of a model's bench.py may have any name."""
    return COLOURS.get(contender, MUTED)


def opponents_of(rows: Sequence[Row]) -> list[str]:
    """Known ones in their usual order, then the others."""
    found = dict.fromkeys(n for r in rows for n in r.timings if n != OURS)
    return sorted(found, key=lambda n: [*COLOURS, n].index(n))


def head(figure: Any, title: str, subtitle: str) -> None:
    """Lines at the top left."""
    height = figure.get_figheight()
    figure.suptitle(title, x=0.02, y=1 - 0.08 / height, ha="left", va="top", fontsize=10,
                    fontweight="bold")  # fmt: skip
    figure.text(0.02, 1 - 0.32 / height, subtitle, fontsize=SMALL, color=MUTED, va="top")


def title_of(machine: Mapping[str, Any]) -> str:
    """Processor, threads and day."""
    return f"{machine['cpu']}, {threads_of(machine['threads'])}, {machine['date'][:10]}"


def threads_of(n: int) -> str:
    """1 thread, 2 threads."""
    return f"{n} thread{'s' * (n > 1)}"


def label_of(row: Row, rows: Sequence[Row]) -> str:
    """With what tells it from the others."""
    label = f"{row.operator}  {row.sizes}"
    if len({r.cache for r in rows}) > 1:
        label += f", {row.cache}"
    if len({r.threads for r in rows}) > 1:
        label += f", {threads_of(row.threads)}"
    return label
