# SPDX-License-Identifier: Apache-2.0
"""What became of a torch program: which operators are anyop's, which run through torch, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from anyop.torch._lower.lower import Lowered


class Made(Protocol):
    """What a report reads of a program, compiled or captured."""

    name: str
    why_not: str  # it runs through torch

    @property
    def lowered(self) -> Lowered | None: ...


class Report(list[dict[str, Any]]):
    """A row per operator and reason; str() is a table. ms: of the host's calls so far."""

    def __str__(self) -> str:
        header = ("program", "operator", "nodes", "runs as", "calls", "ms", "why, where")
        lines = [header] + [
            (r["program"], r["operator"], str(r["nodes"]), r["kind"], str(r["calls"]),
             f"{r['ms']:.3f}" if r["kind"] == "host" else "", " ".join((r["why"], r["place"])))
            for r in self
        ]  # fmt: skip
        widths = [max(len(line[i]) for line in lines) for i in range(len(header) - 1)]
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(line, [*widths, 0], strict=True)).rstrip()
            for line in lines
        )

    __repr__ = __str__


def report_of(programs: Iterable[Made]) -> Report:
    rows = Report()
    for program in programs:
        if program.why_not:
            rows.append(_row(program.name, "(all of it)", "torch", program.why_not))
        elif program.lowered is not None:
            rows += _rows(program)
    return rows


def _row(program: str, operator: str, kind: str, why: str = "", place: str = "") -> dict[str, Any]:
    return {"program": program, "operator": operator, "nodes": 1, "kind": kind, "calls": 0,
            "ms": 0.0, "why": why, "place": place}  # fmt: skip


def _rows(program: Made) -> list[dict[str, Any]]:
    lowered = program.lowered
    assert lowered is not None
    calls = lowered.graph.stats().calls
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    shares = Counter(id(r.part) for r in lowered.rows if r.part is not None)
    for r in lowered.rows:
        # Reasons that differ in a tensor's type alone ("x: f32[2, 3] ") share a row.
        key = (r.operator, r.kind, re.sub(r"\w+: \w+\[.*?\] ", "", r.why))
        if key not in found:
            found[key] = _row(program.name, r.operator, r.kind, r.why, r.place)
        else:
            found[key]["nodes"] += 1
        row = found[key]
        if r.part is None:
            row["calls"] += calls
        else:  # of a call of several nodes each has its share
            row["calls"] += r.part.calls
            row["ms"] += r.part.ns / 1e6 / shares[id(r.part)]
    order = {"host": 0, "operator": 1, "view": 2}
    return sorted(found.values(), key=lambda r: (order[r["kind"]], -r["ms"], r["operator"]))
