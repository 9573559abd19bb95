# SPDX-License-Identifier: Apache-2.0
"""The planned memory of a graph, and the times of its calls: pictures that a phone shows whole."""

from __future__ import annotations

from anyop.cli.graph_draw import rate, shown_bytes, shown_ns
from anyop.cli.graph_rows import Picture, Row, Span
from anyop.cli.narrow import CHARACTER, COLOURS, LINE, WIDTH, Column, shortened

NAMES = 118  # width of the column of names
READABLE = 40  # with more rows each is a line without a name
HIGH, LOW = 26, 3
MOST_TIMES = 30


def arena(picture: Picture) -> str:
    """Rows are calls in order, boxes the values' places by offset. Boxes below each other share
    memory.
    """
    sizes = "".join(f", {name} = {size}" for name, size in picture.sizes.items())
    column = Column(f"The memory of {picture.name}{sizes}", [
        "Each row is a call, each box a value from the call that makes it to its last use. Boxes "
        "below each other take the same bytes; grey is what a kernel needs for itself.",
    ])  # fmt: skip
    _totals(column, picture)
    column.y += 14
    top, high = column.y, HIGH if len(picture.rows) <= READABLE else LOW
    for r, row in enumerate(picture.rows):
        if r % 2 and high == HIGH:
            column.box(0, top + r * high, WIDTH, high, 'class="band"')
        if high == HIGH:
            column.y = top + r * high + 17
            column.text(2, shortened(_word(row), NAMES - 6), "" if row.kind == "node" else "dim")
    scale = (WIDTH - NAMES - 4) / max(picture.memory["peak_bytes"], 1)
    for span in picture.spans:
        _span(column, picture, span, top, high, scale)
    bottom = top + len(picture.rows) * high
    x = NAMES + picture.memory["bound_bytes"] * scale
    column.path("bound", f"M{x:.1f} {top:.1f}V{bottom:.1f}")
    column.y = bottom + LINE
    column.text(NAMES, "0", "dim")
    column.text(WIDTH - 4, shown_bytes(picture.memory["peak_bytes"]), "dim", ends=True)
    return column.svg(f"The planned memory of {picture.name}")


def _totals(column: Column, picture: Picture) -> None:
    """Planned, the least possible, and what it would be if nothing were shared, as bars."""
    memory = picture.memory
    rows = (("planned", "peak_bytes"), ("lower bound", "bound_bytes"),
            ("unshared", "unshared_bytes"))  # fmt: skip
    most = max(memory[key] for _, key in rows) or 1
    for name, key in rows:
        column.y += LINE + 2
        column.text(2, name, "dim")
        length = (WIDTH - NAMES - 80) * memory[key] / most
        look = "taken" if name == "planned" else "work"
        column.box(NAMES, column.y - 9, length, 10, f'class="{look}"')
        column.text(NAMES + length + 6, shown_bytes(memory[key]))


def _span(
    column: Column, picture: Picture, span: Span, top: float, high: float, scale: float
) -> None:
    x, width = NAMES + span.offset * scale, span.bytes * scale
    y, height = top + span.first * high, (span.last - span.first + 1) * high
    rows = f"rows {span.first + 1} to {span.last + 1}"
    at = f"{shown_bytes(span.bytes)} at offset {span.offset}, {rows}"
    if span.value < 0:
        column.box(x, y + 1, width, height - 2, 'class="work"', f"workspace, {at}")
        return
    name = picture.values[span.value]["name"]
    look = f'fill="{COLOURS[span.value % len(COLOURS)]}" rx="2"'
    column.box(x, y + 1, width, height - 2, look, f"{name}, {at}")
    if high == HIGH and len(name) * CHARACTER + 4 <= width:
        column.y = y + 17
        column.text(x + 3, name, "on")


def _word(row: Row) -> str:
    return row.op.removeprefix("anyop.") if row.kind == "node" else f"{row.kind} {row.name}"


def times(picture: Picture) -> str:
    """The calls of a profile in order, or those that take longest if there are many."""
    nodes = picture.nodes
    shown = sorted(nodes, key=lambda row: -row.ns)[:MOST_TIMES]
    call = f", a whole call {shown_ns(picture.call_ns)}" if picture.call_ns else ""
    sizes = "".join(f", {name} = {size}" for name, size in picture.sizes.items())
    column = Column(f"Where the time of {picture.name}{sizes} goes", [
        f"{len(nodes)} calls, {shown_ns(picture.ns)} one by one{call}. A bar is the time of a "
        "call, beside its share and what it reaches.", *filter(None, [picture.measured_on]),
    ])  # fmt: skip
    most = max((row.share for row in shown), default=0) or 1
    for row in (row for row in nodes if any(row is other for other in shown)):
        column.y += LINE
        place = row.place[-24:]
        room = WIDTH - (len(place) + 2) * CHARACTER
        column.text(0, shortened(_with_result(picture, row), room), "name")
        column.text(WIDTH, place, "dim", ends=True)
        told = f"{shown_ns(row.ns)} {row.share:.1%} {rate(row)}".rstrip()
        length = (WIDTH - 216) * row.share / most
        column.box(0, column.y + 5, length, 9, 'class="bar"', f"kernel {row.kernel}")
        column.y += LINE - 1
        column.text(length + 6, told, "dim")
        column.y += 5
    if len(nodes) > len(shown):
        rest = sum(row.ns for row in nodes) - sum(row.ns for row in shown)
        column.wrapped(0, f"{len(nodes) - len(shown)} more: {shown_ns(rest)}", "dim")
    return column.svg(f"The times of {picture.name}")


def _with_result(picture: Picture, row: Row) -> str:
    made = [picture.values[v] for v in row.results or row.written]
    return f"{_word(row)} {made[0].get('at', made[0]['type'])}" if made else _word(row)
