# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from anyop.cli.launch import launch, new_folder

MOST_ROWS = 25
WIDTH_IN_PIPES = 120
TEXTS = ("op", "call", "kernel", "device")
NUMBERS = ("bytes", "flops", "threads", "calls", "fallbacks", "copies", "kernel_ns", "host_ns")
_TYPE = re.compile(r"\b(?:f|bf|i|u)[0-9a-z]+\[[^\]]*\]|\bbool\[[^\]]*\]")


@click.command("profile", context_settings={"allow_interspersed_args": False})
@click.argument("command_line", metavar="-- COMMAND...", nargs=-1, required=True,
                type=click.UNPROCESSED)  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.json",
              help="Write every call with its time, for ui.perfetto.dev.")  # fmt: skip
@click.option("--rows", default=MOST_ROWS, show_default=True, type=click.IntRange(1),
              help="How many rows the table has.")  # fmt: skip
@click.option("--ceilings/--no-ceilings", default=True,
              help="Measure what this machine can reach (2 s), for the share of it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True,
              help="All rows; what COMMAND prints goes to standard error.")  # fmt: skip
def command(
    command_line: tuple[str, ...], trace: Path | None, rows: int, ceilings: bool, as_json: bool
) -> None:
    """Run a program and show where the time of its operators goes.

    \b
      anyop profile -- python program.py
      anyop profile --trace calls.json -- ./server

    A row is an operator with its shapes and kernel: calls; time in the kernel; host time, which is
    what a call takes beside it (conversions of arguments and results where NumPy or torch calls
    anyop's functions, checks, copies, waiting for a composition's parts); bytes moved a
    second, and their share of what this machine can reach. A call on a device has host time alone,
    since it returns before its kernel is done: the kernel's time is "-", and null with --json.
    Watching costs about 1 us a call, which is in no column. A process that ends without exit
    handlers (os._exit, a signal) tells nothing.
    """
    if trace:
        new_folder(trace.absolute().parent)
    with tempfile.TemporaryDirectory(prefix="anyop-profile-") as folder:
        status = launch(command_line, {"ANYOP_PROFILE": folder}, quiet_output=as_json)
        processes = read(Path(folder))
    table = merged(processes)
    if ceilings and table:
        add_shares(table)
    if trace:
        trace.write_text(json.dumps(chrome_trace(processes)), encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"status": status, "rows": table}, indent=1))
    else:
        show(table, rows)
        if trace:
            click.echo(f"{trace}: open it at https://ui.perfetto.dev", err=True)
    sys.exit(status)


def read(folder: Path) -> list[dict[str, Any]]:
    """What each process wrote. One that was ended while it wrote, or that another program wrote, is
    told and left out.
    """
    processes = []
    for path in sorted(folder.glob("*.json")):
        try:
            process = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            process = None
        if _is_whole(process):
            processes.append(process)
        else:
            text = f"The profile of process {path.stem} is damaged and left out."
            click.secho(text, fg="yellow", err=True)
    return processes


def _is_whole(process: Any) -> bool:
    """Whether it is what src/runtime/observe/profile.cc writes."""
    if not isinstance(process, dict) or type(process.get("process")) is not int:
        return False
    rows, events = process.get("rows"), process.get("events")
    if not isinstance(rows, list) or not isinstance(events, list):
        return False
    for row in rows:
        if not isinstance(row, dict):
            return False
        texts = all(isinstance(row.get(n), str) and row[n].isprintable() for n in TEXTS)
        if not texts or not all(type(row.get(n)) is int for n in NUMBERS):
            return False
    return all(
        isinstance(e, list) and [type(n) for n in e] == [int] * 5 and 0 <= e[0] < len(rows)
        for e in events
    )


def merged(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all processes, those that took longest first."""
    sums = ("calls", "fallbacks", "copies", "kernel_ns", "host_ns")
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for process in processes:
        for row in process["rows"]:
            key = (row["call"], row["kernel"], row["device"])
            if key not in rows:
                rows[key] = {**row, **dict.fromkeys(sums, 0)}
            for name in sums:
                rows[key][name] += row[name]
    table = [row for row in rows.values() if row["calls"]]
    for row in table:
        if row["device"] != "cpu":
            row["kernel_ns"] = None  # nobody waited for it
        ns = (row["kernel_ns"] or 0) / row["calls"]
        row["gb_per_s"] = row["bytes"] / ns if ns else None
        row["share_of_ceiling"] = None
    return sorted(table, key=lambda row: -whole_ns(row))


def whole_ns(row: dict[str, Any]) -> int:
    """What the calls of a row took, as far as it is known."""
    whole: int = (row["kernel_ns"] or 0) + row["host_ns"]
    return whole


def add_shares(table: list[dict[str, Any]]) -> None:
    """What the call would take at least by its bytes and operations, over what its kernel took."""
    from anyop.bench.measure import level_of
    from anyop.cli.doctor import measure

    found = measure(show_progress=sys.stderr.isatty())
    for row in table:
        if not row["kernel_ns"]:
            continue
        ns = row["kernel_ns"] / row["calls"]
        level = level_of(row["bytes"], found, row["threads"])[0]
        most = max(
            (r["gops"] for r in found["rates"] if r["threads"] == level["threads"]), default=0
        )
        least = max(
            row["bytes"] / max(level["copy_gbs"], level["read_gbs"]),
            row["flops"] / most if most else 0,
        )
        row["share_of_ceiling"] = least / ns


def chrome_trace(processes: list[dict[str, Any]]) -> dict[str, Any]:
    """Calls as Chrome's trace events, which Perfetto reads; times in us."""
    events: list[dict[str, Any]] = []
    for process in processes:
        pid = process["process"]
        events.append({"name": "process_name", "ph": "M", "pid": pid, "tid": pid,
                       "args": {"name": f"anyop, process {pid}"}})  # fmt: skip
        for number, thread, start, total, kernel in process["events"]:
            row = process["rows"][number]
            kernel_us = kernel / 1000 if row["device"] == "cpu" else None
            events.append({
                "name": row["op"], "cat": "operator", "ph": "X", "pid": pid, "tid": thread,
                "ts": start / 1000, "dur": total / 1000,
                "args": {"call": row["call"], "kernel": row["kernel"], "device": row["device"],
                         "kernel_us": kernel_us, "bytes": row["bytes"]},
            })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def show(table: list[dict[str, Any]], most: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from anyop.cli.graph_draw import shown_ns

    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe has no width, and rich would cut at 80 columns
        console = Console(highlight=False, width=WIDTH_IN_PIPES)
    if not table:
        console.print("The program called no operator of anyop.", style="yellow")
        return
    whole = sum(whole_ns(row) for row in table)
    head = f"{shown_ns(whole)} in operators, {len(table)} kinds of calls"
    picture = Table(title=head, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    picture.add_column("operator, kernel, shapes", overflow="fold")
    for name in ("calls", "kernel", "host", "share", "GB/s", "ceiling"):
        picture.add_column(name, justify="right", no_wrap=True)
    for row in table[:most]:
        share = row["share_of_ceiling"]
        picture.add_row(
            escape(title(row)), str(row["calls"]),
            "-" if row["kernel_ns"] is None else shown_ns(row["kernel_ns"]),
            shown_ns(row["host_ns"]), f"{whole_ns(row) / whole:.1%}",
            f"{row['gb_per_s']:.3g}" if row["gb_per_s"] else "",
            f"{share:.0%}" if share is not None else "",
        )  # fmt: skip
    console.print(picture)
    if len(table) > most:
        rest = sum(whole_ns(row) for row in table[most:])
        console.print(f"{len(table) - most} more: {shown_ns(rest)}. Try --rows or --json.")


def title(row: dict[str, Any]) -> str:
    """Operator and kernel; below them the types of tensors, and what the call need not do."""
    types = ", ".join(_TYPE.findall(row["call"]))
    where = "" if row["device"] == "cpu" else f" on {row['device']}"
    lines = [f"{row['op'].removeprefix('anyop.')}  {row['kernel']}{where}", f"  {types}"]
    if row["fallbacks"]:
        lines.append("  a composition: no kernel takes the call")
    if row["copies"]:
        lines.append(f"  {row['copies']} arguments or results were copied")
    return "\n".join(lines)
