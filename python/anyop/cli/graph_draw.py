# SPDX-License-Identifier: Apache-2.0
"""Blocks of rows as SVG: lanes of values, calls, times, and memory by offset. Full rows can be
read; thin ones show a loop's further turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from anyop.cli.graph_rows import Lane, Picture, Row

FULL, THIN = 22, 3  # heights of rows
NARROW = 440  # of a picture for phones, which show four fifths of it
CHARACTER = 6.62  # width of one in the font of STYLE
MOST_TEXT = 96  # characters of a call
COLOURS = (
    "#0d9488", "#7c3aed", "#db2777", "#65a30d", "#c2410c", "#0284c7", "#a16207", "#4f46e5",
)  # fmt: skip
INPUT, STATE, OUTPUT, MUTED, HEAT = "#2563eb", "#64748b", "#ea580c", "#6b7280", "#dc2626"
STYLE = """
text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#111827}
.op{font-weight:700}.dim{fill:#6b7280}.in{fill:#2563eb}.state{fill:#475569}.out{fill:#ea580c}
.lane{fill:none;stroke-width:2}.bound{stroke-dasharray:4 2}.band{fill:#f3f4f6}
.mem{stroke:#fff;stroke-width:.5}.work{fill:#d1d5db}.hot{stroke:#111827!important;stroke-width:3!important}
.region{fill:none;stroke:#9333ea;stroke-width:3}
.rule{stroke:#9ca3af;stroke-width:1}.limit{stroke:#dc2626;stroke-width:1;stroke-dasharray:5 3}
h1{font:600 18px system-ui,sans-serif;margin:0 0 4px}
@media (prefers-color-scheme:dark){
text{fill:#e4e6ea}.dim,[style*="#6b7280"]{fill:#a4abb8!important}.in{fill:#7ba7ff}.state{fill:#b3bccb}
[style*="#2563eb"],[fill="#2563eb"]{fill:#7ba7ff!important}[stroke="#2563eb"]{stroke:#7ba7ff}
[fill="#fff"]{fill:#1b1e25}[stroke="#111827"]{stroke:#e4e6ea}.mem{stroke:#1b1e25}.band{fill:#262b34}
.work{fill:#454c59}.hot{stroke:#e4e6ea!important}[fill^="rgb(240"]{fill-opacity:.35}}
"""


def shown_bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


def shown_ns(ns: float) -> str:
    for unit in ("ns", "us", "ms"):
        if ns < 1000:
            return f"{ns:.0f} {unit}" if unit == "ns" else f"{ns:.3g} {unit}"
        ns /= 1000
    return f"{ns:.3g} s"


def rate(row: Row) -> str:
    """What limits such work on usual machines: arithmetic from 8 operations per byte on."""
    if not row.ns:
        return ""
    if row.flops >= 8 * row.bytes:
        return f"{row.flops / row.ns:.3g} GFLOP/s"
    return f"{row.bytes / row.ns:.3g} GB/s"


class Drawing:
    """Where the columns of a picture are, and what is drawn in them. is_narrow: as a phone shows
    it, with the operator and the types of its results alone.
    """

    def __init__(self, picture: Picture, is_narrow: bool = False) -> None:
        self.picture = p = picture
        self.is_narrow = is_narrow
        self.lane_of = {lane.value: lane for lane in p.lanes}
        self.outputs = {row.arguments[0] for row in p.rows if row.kind == "output"}
        self.has_times = p.ns > 0 and not is_narrow
        self.has_memory = bool(p.memory)
        places = 0 if is_narrow else max((len(row.place) for row in p.rows), default=0)
        most_lanes = 112 if is_narrow else 224
        self.step = min(14, max(4, most_lanes / p.columns))
        self.lanes_x = 16 + min(places, 32) * CHARACTER
        self.text_x = self.lanes_x + p.columns * self.step + 8
        self.memory_width = 110 if is_narrow else 320
        room = NARROW - self.text_x - 24 - (self.memory_width + 24 if self.has_memory else 0)
        self.most_text = int(room / CHARACTER) if is_narrow else MOST_TEXT
        texts = [sum(len(t) for t, _ in self.texts(row)) for row in p.rows]
        self.time_x = self.text_x + max(texts, default=0) * CHARACTER + 16
        self.memory_x = self.time_x + (270 if self.has_times else 0)
        width = self.memory_x + (self.memory_width + 24 if self.has_memory else 0)
        self.width = max(width, NARROW) if is_narrow else width
        self.most_share = max((row.share for row in p.rows), default=0)
        self.peak = max(p.memory.get("peak_bytes", 0), 1)
        self.fullest_row, _ = p.fullest()

    # Text.

    def value_tip(self, value: int) -> str:
        v = self.picture.values[value]
        text = f"{v['name']}: {v.get('at', v['type'])}, {v['kind']}"
        if v.get("view"):
            text += f" {v['view']}"
        if v.get("frozen"):
            text += ", frozen"
        if v.get("written"):
            text += ", written"
        return text + (f", {shown_bytes(v['bytes'])}" if "bytes" in v else "")

    def argument(self, name: str, row: Row) -> tuple[str, str]:
        """How an argument is shown: views by what they are of."""
        p = self.picture
        for i in [*row.arguments, *row.written]:
            v = p.values[i]
            if v["name"] != name:
                continue
            root = p.values[p.root(i)]
            kind = {"input": "in", "number": "in", "result": ""}.get(root["kind"], "state")
            if "of" not in v:
                return name, kind
            return root["name"] + "[" + v["type"].partition("[")[2], kind
        return name, ""

    def texts(self, row: Row) -> list[tuple[str, str]]:
        """A row's parts, each with its class."""
        values = self.picture.values
        if row.kind == "output":
            v = values[row.arguments[0]]
            return [("output ", "out"), (row.name, "op"), (" " + v["type"], "out")]
        if row.kind == "input":
            return [
                ("input ", "in"),
                (row.name, "op"),
                (" " + values[row.results[0]]["type"], "in"),
            ]
        if self.is_narrow:
            types = " ".join(values[r]["type"] for r in row.results)
            return shortened([(row.op.removeprefix("anyop."), "op"), (f" {types}", "dim")],
                             self.most_text)  # fmt: skip
        op, _, rest = row.call.partition("(")
        parts = [(op.removeprefix("anyop."), "op"), ("(", "dim")]
        end = 0
        for word in re.finditer(r"(?<![\w'.])[A-Za-z_]\w*(?![\w'=])", rest):
            parts += [(rest[end : word.start()], "dim"), self.argument(word.group(), row)]
            end = word.end()
        parts.append((rest[end:], "dim"))
        roots = {self.picture.root(i) for i in row.written}
        into = sorted(roots - set(row.results))
        for r in row.results:
            is_state = values[self.picture.root(r)]["kind"] == "state"
            kind = "out" if r in self.outputs else "state" if is_state else ""
            parts += [(" → ", "dim"), (values[r]["name"], kind)]
            parts.append((" " + values[r]["type"], "dim"))
        if into:
            parts.append((" ✎ " + ", ".join(values[i]["name"] for i in into), "state"))
        return list(cut(parts, self.most_text))

    # Parts of a block.

    def lane_x(self, lane: Lane) -> float:
        return self.lanes_x + (lane.column + 0.5) * self.step

    def colour(self, value: int) -> str:
        kind = self.picture.values[value]["kind"]
        if kind in ("input", "number"):
            return INPUT
        return STATE if kind in ("state", "constant") else COLOURS[value % len(COLOURS)]

    def node_x(self, r: int) -> float:
        """In the lane of what the node makes, or changes."""
        row = self.picture.rows[r]
        mine = [self.picture.root(v) for v in [*row.results, *row.written, *row.arguments]]
        lanes = [self.lane_of[v] for v in mine if v in self.lane_of]
        return self.lane_x(lanes[0]) if lanes else self.lanes_x + self.step / 2

    def line(self, lane: Lane, path: str, is_edge: bool = False) -> str:
        bound = " bound" if lane.is_bound and not is_edge else ""
        return (
            f'<path class="lane{bound}" data-v="{lane.value}" stroke="{self.colour(lane.value)}" '
            f'd="{path}"><title>{escape(self.value_tip(lane.value))}</title></path>'
        )

    def lane_lines(self, begin: int, end: int, y: float, height: float) -> Iterator[str]:
        """The straight parts: from below the row that makes a value to above its last use."""
        for lane in self.picture.lanes:
            if lane.first >= end or lane.last < begin or lane.first == lane.last:
                continue
            x = self.lane_x(lane)
            top = lane.first + (0 if lane.is_bound else 1)
            first = y + (max(top, begin) - begin) * height
            last = y + (min(lane.last, end) - begin) * height
            if height < FULL:  # without edges: from node to node
                first -= height / 2 if not lane.is_bound and begin <= lane.first else 0
                last += height / 2 if lane.last < end else 0
            if last > first:
                yield self.line(lane, f"M{x:.1f} {first:.1f}V{last:.1f}")

    def edges(self, r: int, y: float) -> Iterator[str]:
        """From the lanes of a row's arguments to its node, and on to its results."""
        p, row = self.picture, self.picture.rows[r]
        x, middle, bottom = self.node_x(r), y + FULL / 2, y + FULL
        used = dict.fromkeys(p.root(v) for v in [*row.arguments, *row.written])
        made = dict.fromkeys(p.root(v) for v in row.results)
        for lane in (self.lane_of[v] for v in {**used, **made} if v in self.lane_of):
            at = self.lane_x(lane)
            if lane.value in used:
                bend = f"M{at:.1f} {y:.1f}C{at:.1f} {middle:.1f} {at:.1f} {middle:.1f} "
                yield self.line(lane, f"{bend}{x:.1f} {middle:.1f}", True)
                if lane.last > r:
                    yield self.line(lane, f"M{at:.1f} {y:.1f}V{bottom:.1f}")
                if lane.is_bound and lane.first == r:
                    yield (
                        f'<rect x="{at - 3.5:.1f}" y="{y:.1f}" width="7" height="7" '
                        f'fill="{self.colour(lane.value)}"><title>'
                        f"{escape(self.value_tip(lane.value))}</title></rect>"
                    )
            elif lane.first == r:
                bend = f"M{x:.1f} {middle:.1f}C{at:.1f} {middle:.1f} {at:.1f} {middle:.1f} "
                yield self.line(lane, f"{bend}{at:.1f} {bottom:.1f}", True)

    def mark(self, r: int, y: float) -> str:
        row, x, middle = self.picture.rows[r], self.node_x(r), y + FULL / 2
        if row.kind == "input":
            return f'<circle cx="{x:.1f}" cy="{middle}" r="4.5" fill="{INPUT}"/>'
        if row.kind == "output":
            return (
                f'<circle cx="{x:.1f}" cy="{middle}" r="5" fill="#fff" stroke="{OUTPUT}" '
                f'stroke-width="2"/><circle cx="{x:.1f}" cy="{middle}" r="2" fill="{OUTPUT}"/>'
            )
        ring = HEAT if row.written else "#111827"
        return (
            f'<circle cx="{x:.1f}" cy="{middle}" r="4.5" fill="#fff" stroke="{ring}" '
            'stroke-width="2"/>'
        )

    def text(self, r: int, y: float, place: str) -> Iterator[str]:
        row, base = self.picture.rows[r], y + 15
        if place and not self.is_narrow:
            yield f'<text class="dim" x="8" y="{base}">{escape(place[-32:])}</text>'
        parts = "".join(
            f'<tspan class="{c}">{escape(t)}</tspan>' if c else f"<tspan>{escape(t)}</tspan>"
            for t, c in self.texts(row)
        )
        tip = "\n".join(
            [row.call or row.name, *(self.value_tip(v) for v in [*row.arguments, *row.results])]
            + ([f"kernel {row.kernel}"] if row.kernel else [])
        )
        yield (
            f'<text x="{self.text_x:.1f}" y="{base}" xml:space="preserve">'
            f"<title>{escape(tip)}</title>{parts}</text>"
        )

    def time(self, r: int, y: float) -> Iterator[str]:
        row = self.picture.rows[r]
        if not row.ns or not self.has_times:
            return
        yield self.bar(row.share, y + 4, FULL - 8)
        label = f"{shown_ns(row.ns):>7} {row.share:6.1%} {rate(row)}"
        yield (
            f'<text class="dim" x="{self.time_x + 76:.1f}" y="{y + 15}" xml:space="preserve">'
            f"{label}</text>"
        )

    def bar(self, share: float, y: float, height: float) -> str:
        heat = share / self.most_share if self.most_share else 0
        light = round(225 - 165 * heat)
        return (
            f'<rect x="{self.time_x:.1f}" y="{y:.1f}" width="{max(70 * heat, 0.5):.1f}" '
            f'height="{height:.1f}" fill="rgb(240,{light},{round(light * 0.55)})"/>'
        )

    def memory(self, begin: int, end: int, y: float, height: float) -> Iterator[str]:
        p, scale = self.picture, self.memory_width / self.peak
        for s in p.spans:
            first, last = max(s.first, begin), min(s.last, end - 1)
            if first > last:
                continue
            nodes = f"rows {s.first + 1} to {s.last + 1}"
            work = "workspace" if s.first == s.last else "memory of a region's threads"
            what = self.value_tip(s.value) if s.value >= 0 else work
            tip = f"{what}; {shown_bytes(s.bytes)} at offset {s.offset}, {nodes}"
            colour = f'fill="{self.colour(s.value)}" fill-opacity=".75"' if s.value >= 0 else ""
            yield (
                f'<rect class="mem{"" if s.value >= 0 else " work"}" data-v="{s.value}" {colour} '
                f'x="{self.memory_x + s.offset * scale:.2f}" '
                f'y="{y + (first - begin) * height:.1f}" width="{max(s.bytes * scale, 0.5):.2f}" '
                f'height="{(last - first + 1) * height:.1f}"><title>{escape(tip)}</title></rect>'
            )
        bottom = y + (end - begin) * height
        for name, kind in (("peak_bytes", "rule"), ("bound_bytes", "limit")):
            x = self.memory_x + p.memory[name] * scale
            yield f'<path class="{kind}" d="M{x:.1f} {y:.1f}V{bottom:.1f}"/>'
        if begin <= self.fullest_row < end:
            at, x = y + (self.fullest_row - begin + 0.5) * height, self.memory_x - 2
            tip = f"most bytes are alive here: {shown_bytes(p.fullest()[1])}"
            yield (
                f'<path fill="{HEAT}" d="M{x:.1f} {at:.1f}l-7 -4v8z">'
                f"<title>{escape(tip)}</title></path>"
            )

    def regions(self, begin: int, end: int, y: float, height: float) -> Iterator[str]:
        """A bracket beside the calls."""
        for region in self.picture.regions:
            first, last = max(region.first, begin), min(region.last, end - 1)
            if first > last:
                continue
            inset = 4 if height == FULL else 0
            top = y + (first - begin) * height + (inset if first == region.first else 0)
            bottom = y + (last + 1 - begin) * height - (inset if last == region.last else 0)
            yield (
                f'<path class="region" d="M{self.text_x - 5:.1f} {top:.1f}V{bottom:.1f}">'
                f"<title>{escape(region.text)}</title></path>"
            )

    # Blocks.

    def full(self, begin: int, end: int, y: float = 0) -> Iterator[str]:
        """Rows [begin, end), FULL high each. Rows of one line of the user's have one band."""
        rows, band, last = self.picture.rows, False, None
        for r in range(begin, end):
            is_new = rows[r].place != last or rows[r].kind != "node"
            band, last = band != is_new, rows[r].place
            if band:
                at = y + (r - begin) * FULL
                yield f'<rect class="band" y="{at}" width="{self.width:.0f}" height="{FULL}"/>'
        if self.has_memory:
            yield from self.memory(begin, end, y, FULL)
        yield from self.lane_lines(begin, end, y, FULL)
        yield from self.regions(begin, end, y, FULL)
        last = None
        for r in range(begin, end):
            at = y + (r - begin) * FULL
            yield from self.edges(r, at)
            yield self.mark(r, at)
            yield from self.text(r, at, rows[r].place if rows[r].place != last else "")
            yield from self.time(r, at)
            last = rows[r].place

    def thin(self, begin: int, end: int, label: str, y: float = 0) -> Iterator[str]:
        """The same, THIN high each, with one label."""
        if self.has_memory:
            yield from self.memory(begin, end, y, THIN)
        yield from self.lane_lines(begin, end, y, THIN)
        yield from self.regions(begin, end, y, THIN)
        rows = self.picture.rows[begin:end]
        for k, row in enumerate(rows):
            if row.ns and self.has_times:
                yield self.bar(row.share, y + k * THIN, THIN - 0.5)
        base = y + min((end - begin) * THIN / 2 + 4, 15)
        if self.has_times:
            total = sum(row.ns for row in rows)
            label += f", {shown_ns(total)}, {sum(row.share for row in rows):.1%}"
        yield f'<text class="dim" x="{self.text_x:.1f}" y="{base:.1f}">{escape(label)}</text>'

    def legend(self, y: float) -> str:
        """One line, or from y on two."""
        parts = (
            ("●", f"fill:{INPUT}", "input"), ("■", f"fill:{STATE}", "state"),
            ("○", "font-weight:700", "operator"), ("◉", f"fill:{OUTPUT}", "output"),
            ("○", f"font-weight:700;fill:{HEAT}", "changes memory that was there before"),
            ("┃", "fill:#9333ea", "nodes in one pass over memory"),
        )  # fmt: skip
        if self.is_narrow:
            short = (*parts[4][:2], "changes memory"), (*parts[5][:2], "one pass over memory")
            return self.signs(parts[:4], y) + self.signs(short, y + 16)
        return self.signs(parts, y)

    def signs(self, parts: Sequence[tuple[str, str, str]], y: float) -> str:
        spans = "".join(
            f'<tspan style="{style}">{sign} </tspan><tspan style="fill:{MUTED}">{text}  </tspan>'
            for sign, style, text in parts
        )
        return f'<text x="8" y="{y}" xml:space="preserve">{spans}</text>'

    def head(self, y: float) -> Iterator[str]:
        """Names of the columns, and the scale of the memory."""
        p = self.picture
        if not self.is_narrow:
            yield f'<text class="dim" x="8" y="{y}">line</text>'
            yield f'<text class="dim" x="{self.text_x:.1f}" y="{y}">call → result</text>'
        if self.has_times:
            yield f'<text class="dim" x="{self.time_x:.1f}" y="{y}">time, share, rate</text>'
        if not self.has_memory:
            return
        name = "memory" if self.is_narrow else "memory by offset: peak"
        yield (
            f'<text class="dim" x="{self.memory_x:.1f}" y="{y - 14}">{name} '
            f"{shown_bytes(p.memory['peak_bytes'])}</text>"
        )
        if self.is_narrow:  # the subtitle has it
            return
        yield (
            f'<text x="{self.memory_x:.1f}" y="{y}" style="fill:{HEAT}">┆ lower bound '
            f"{shown_bytes(p.memory['bound_bytes'])}</text>"
        )


def shortened(parts: list[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """The first characters, with a sign that there are more."""
    shown = []
    for text, kind in parts:
        shown.append((text if len(text) <= most else text[: max(most - 1, 0)] + "…", kind))
        most -= len(shown[-1][0])
    return [(text, kind) for text, kind in shown if text]


def cut(parts: list[tuple[str, str]], most: int) -> Iterator[tuple[str, str]]:
    """Of a long call, what fits: its beginning, and its results."""
    at = next((i for i, (t, _) in enumerate(parts) if t == " → "), len(parts))
    room = most - sum(len(t) for t, _ in parts[at:])
    for text, kind in parts[:at]:
        if len(text) > room:
            yield text[: max(room - 1, 0)] + "…", "dim"
            break
        room -= len(text)
        yield text, kind
    yield from parts[at:]
