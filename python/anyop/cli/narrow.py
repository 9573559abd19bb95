# SPDX-License-Identifier: Apache-2.0
"""SVG that a phone shows whole: words and boxes in one column of a fixed width, light and dark."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 440
CHARACTER = 6.8  # width of one at 11 px in the widest of the fonts; a phone shows four fifths
LINE = 15
COLOURS = ("#0d9488", "#7c3aed", "#c2410c", "#0284c7", "#65a30d", "#db2777", "#a16207", "#4f46e5")
STYLE = """
text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2430}
.title{font:700 15px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.name{font-weight:700}.dim{fill:#5b6270}.lost{fill:#b00020}.on{fill:#fff}
.rule{stroke:#8a93a3;stroke-width:1;fill:none}.flow{stroke:#0f766e;stroke-width:2;fill:none}
.taken{fill:#0f766e}.free{fill:#fff;stroke:#8a93a3;stroke-width:1.5}.work{fill:#d1d5db}
.band{fill:#f3f4f6}.bound{stroke:#dc2626;stroke-width:1;stroke-dasharray:5 3;fill:none}
.bar{fill:#1f6fb2}
@media (prefers-color-scheme:dark){
text{fill:#e4e6ea}.dim{fill:#a4abb8}.lost{fill:#ff8a95}.on{fill:#fff}
.rule{stroke:#7d8594}.flow{stroke:#2dd4bf}.taken{fill:#14b8a6}.free{fill:#1b1e25}
.work{fill:#454c59}.band{fill:#262b34}.bound{stroke:#ff8a95}.bar{fill:#4c9be0}}
"""


class Column:
    """What is drawn so far, and the height down to which it is."""

    def __init__(self, title: str, said: Sequence[str]) -> None:
        self.parts: list[str] = []
        self.y = 22.0
        self.text(0, title, "title")
        self.y += 6
        for line in said:
            self.wrapped(0, line, "dim")
        self.y += 8

    def text(self, x: float, text: str, kind: str = "", ends: bool = False) -> None:
        """On the line at y, which stays the line. ends: at x, where it begins else."""
        name = f' class="{kind}"' if kind else ""
        end = ' text-anchor="end"' if ends else ""
        self.parts.append(
            f'<text{name} x="{x:.1f}" y="{self.y:.1f}"{end} xml:space="preserve">{escape(text)}'
            "</text>"
        )

    def wrapped(self, x: float, text: str, kind: str = "") -> None:
        """As many lines as it takes, from the next one on."""
        for line in lines_of(text, WIDTH - x):
            self.y += LINE
            self.text(x, line, kind)

    def box(
        self, x: float, y: float, width: float, height: float, look: str, tip: str = ""
    ) -> None:
        """look: attributes of the rectangle."""
        told = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" '
            f"{look}>{told}</rect>"
        )

    def path(self, kind: str, path: str) -> None:
        self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def svg(self, label: str) -> str:
        body = "\n".join(self.parts)
        height = self.y + 10
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
            f"<style>{STYLE}</style>\n{body}\n</svg>\n"
        )


def lines_of(text: str, width: float) -> Iterable[str]:
    return textwrap.wrap(text, int(width / CHARACTER), break_on_hyphens=False) or [""]


def shortened(text: str, width: float) -> str:
    """What fits, with a sign that there is more."""
    most = max(int(width / CHARACTER), 1)
    return text if len(text) <= most else text[: most - 1] + "…"
