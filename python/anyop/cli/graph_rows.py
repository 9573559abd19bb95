# SPDX-License-Identifier: Apache-2.0
"""A graph as rows to draw: one per node in the order in which they run, with a lane for each value
from the row that makes it to the last that uses it, as version control draws branches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anyop.cli.profiles import NOT_MEASURED, Profile

MOST_DECLARED = 8  # more inputs or outputs than these get no rows of their own
MOST_IN_TURN = 200  # nodes in a turn of a loop that is recognised


@dataclass
class Span:
    """Memory in the arena over rows [first, last]."""

    value: int  # -1: a workspace
    offset: int
    bytes: int
    first: int
    last: int


@dataclass
class Region:
    """Rows [first, last] of the picture whose tensors' rows run block by block."""

    first: int
    last: int
    text: str


@dataclass
class Lane:
    """A value from the row that makes it to the last that uses it."""

    value: int
    column: int
    first: int
    last: int
    is_bound: bool  # begins above the node of `first`, which uses it


@dataclass
class Row:
    """An input, a node or an output."""

    kind: str  # "input", "node", "output"
    name: str = ""  # of the output
    place: str = ""
    op: str = ""
    call: str = ""
    arguments: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    kernel: str = ""
    flops: float = 0
    bytes: float = 0
    ns: float = 0
    share: float = 0


@dataclass
class Block:
    """Rows [begin, end). Of a loop's turn: which one, of how many; turn 0: no loop."""

    begin: int
    end: int
    turn: int = 0
    turns: int = 0


@dataclass
class Picture:
    """All that is drawn. Values are those of Graph.describe."""

    name: str
    sizes: dict[str, int]
    values: list[dict[str, Any]]
    rows: list[Row]
    lanes: list[Lane]
    blocks: list[Block]
    spans: list[Span]
    regions: list[Region]
    memory: dict[str, int]
    state_bytes: int
    call_ns: float
    measured_on: str  # the processor and the day, "" without times
    symbols: list[str]

    @property
    def columns(self) -> int:
        return max((lane.column + 1 for lane in self.lanes), default=1)

    @property
    def nodes(self) -> list[Row]:
        return [row for row in self.rows if row.kind == "node"]

    @property
    def ns(self) -> float:
        return sum(row.ns for row in self.rows)

    def root(self, value: int) -> int:
        return int(self.values[value].get("of", value))

    def fullest(self) -> tuple[int, int]:
        """The row at which most bytes are alive, and how many."""
        alive = [0] * len(self.rows)
        for s in self.spans:
            for r in range(s.first, s.last + 1):
                alive[r] += s.bytes
        most = max(alive, default=0)
        return (alive.index(most) if most else -1), most


def make_picture(graph: Any, sizes: dict[str, int], measured: Profile = NOT_MEASURED) -> Picture:
    """graph: compiled. sizes: of its symbols, {} for none."""
    told = json.loads(graph.describe(**sizes))
    values, outputs = told["values"], told["outputs"]
    inputs = [i for i, v in enumerate(values) if v["kind"] in ("input", "number")]
    rows = []
    if len(inputs) <= MOST_DECLARED:
        rows += [Row("input", values[i]["name"], results=[i]) for i in inputs]
    first_node = len(rows)
    for i, node in enumerate(told["nodes"]):
        row = Row("node", **{k: node[k] for k in node})
        if measured.nodes:
            row.ns, row.share = measured.nodes[i]["ns_min"], measured.nodes[i]["share"]
        rows.append(row)
    end = len(rows)
    if len(outputs) <= MOST_DECLARED:
        rows += [Row("output", o["name"], arguments=[o["value"]]) for o in outputs]
    memory = told.get("memory", {})
    # Before the first node and after the last there are copies of inputs and to outputs.
    spans = [
        Span(
            s["value"], s["offset"], s["bytes"], max(s["first"], 0) + first_node,
            min(s["last"] + first_node, end - 1),
        )
        for s in memory.pop("spans", [])
    ]  # fmt: skip
    regions = [
        Region(
            r["first"] + first_node, r["last"] + first_node,
            f"{r['last'] - r['first'] + 1} nodes in one pass: {r['rows']} rows, {r['block']} at a "
            f"time, up to {r['threads']} threads",
        )
        for r in told.get("regions", [])
    ]  # fmt: skip
    turns = loops([(r.op, r.place) for r in rows[first_node:end]])
    blocks = [Block(b.begin + first_node, b.end + first_node, b.turn, b.turns) for b in turns]
    if first_node:
        blocks.insert(0, Block(0, first_node))
    if end < len(rows):
        blocks.append(Block(end, len(rows)))
    state_bytes = graph.stats().state_bytes
    lanes = make_lanes(values, rows)
    return Picture(
        graph.name, sizes, values, rows, lanes, blocks, spans, regions, memory, state_bytes,
        measured.call_ns, measured.on, list(graph.symbols),
    )  # fmt: skip


def make_lanes(values: list[dict[str, Any]], rows: list[Row]) -> list[Lane]:
    """What nothing but one node uses (a weight) is told in its row, and gets no lane."""
    made: dict[int, int] = {}
    used: dict[int, list[int]] = {}
    for r, row in enumerate(rows):
        for v in [*row.arguments, *row.written]:
            root = values[v].get("of", v)
            if used.setdefault(root, [r])[-1] != r:
                used[root].append(r)
        for v in row.results:
            made.setdefault(values[v].get("of", v), r)
    wanted = []
    for v in sorted({*made, *used}, key=lambda v: made.get(v, used.get(v, [0])[0])):
        uses = used.get(v, [])
        is_bound = v not in made or (values[v]["kind"] not in ("result", "input", "number"))
        if is_bound and len(uses) < 2:
            continue
        first = uses[0] if is_bound else made[v]
        wanted.append(Lane(v, 0, first, max([first, *uses]), is_bound))
    # A result may go on where an argument ends; a bound value comes from above its row.
    free_from: list[float] = []
    for lane in sorted(wanted, key=lambda n: (n.first - 0.5 * n.is_bound, -n.last)):
        begin = lane.first - 0.5 * lane.is_bound
        column = next((c for c, free in enumerate(free_from) if free <= begin), len(free_from))
        if column == len(free_from):
            free_from.append(0)
        free_from[column] = lane.last + (0.25 if lane.last == lane.first else 0)
        lane.column = column
    return wanted


def loops(keys: Sequence[Any]) -> list[Block]:
    """The turns of loops: where a sequence of keys comes several times in a row."""
    blocks: list[Block] = []

    def split(begin: int, end: int) -> None:
        best = (0, 0, 0)  # nodes covered, -period, start
        for period in range(1, min((end - begin) // 2, MOST_IN_TURN) + 1):
            run = 0
            for i in range(begin, end - period):
                run = run + 1 if keys[i] == keys[i + period] else 0
                turns = run // period + 1
                is_loop = turns > 1 and turns * period >= 8
                if is_loop and (turns * period, -period) > best[:2]:
                    best = (turns * period, -period, i + period + 1 - run - period)
        covered, period, start = best[0], -best[1], best[2]
        if not covered:
            if begin < end:
                blocks.append(Block(begin, end))
            return
        split(begin, start)
        n = covered // period
        for k in range(n):
            blocks.append(Block(start + k * period, start + (k + 1) * period, k + 1, n))
        split(start + covered, end)

    split(0, len(keys))
    return blocks
