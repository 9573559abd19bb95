# SPDX-License-Identifier: Apache-2.0
"""The profile of a graph as tables."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from anyop.cli.graph_draw import rate, shown_ns
from anyop.cli.graph_page import by_operator
from anyop.cli.graph_rows import Picture

MOST_NODES = 12


def show(picture: Picture) -> None:
    """The nodes that take longest, and sums by operator."""
    console = Console()
    nodes = sorted(picture.nodes, key=lambda row: -row.ns)
    if not nodes:
        return
    call = f"; a call {shown_ns(picture.call_ns)}" if picture.call_ns else ""
    table = _table(f"{picture.name}: {shown_ns(picture.ns)} in {len(nodes)} nodes{call}")
    table.add_column("line", no_wrap=True, min_width=max(len(r.place) for r in nodes[:MOST_NODES]))
    table.add_column("operator, result", no_wrap=True, overflow="ellipsis")
    for name, width in (("time", 7), ("share", 5), ("rate", 11)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    table.add_column("kernel", no_wrap=True, overflow="ellipsis")
    for row in nodes[:MOST_NODES]:
        made = [picture.values[v] for v in row.results or row.written]
        result = made[0].get("at", made[0]["type"]) if made else ""
        table.add_row(
            row.place, escape(f"{row.op.removeprefix('anyop.')} {result}"), shown_ns(row.ns),
            f"{row.share:.1%}", rate(row), row.kernel,
        )  # fmt: skip
    console.print(table)
    if len(nodes) > MOST_NODES:
        rest = sum(row.ns for row in nodes[MOST_NODES:])
        console.print(f"{len(nodes) - MOST_NODES} more nodes: {shown_ns(rest)}", highlight=False)
    table = _table("by operator")
    table.add_column("operator")
    for name in ("nodes", "time", "share"):
        table.add_column(name, justify="right")
    for op, count, ns, share in by_operator(picture):
        table.add_row(op, str(count), shown_ns(ns), f"{share:.1%}")
    console.print(table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
