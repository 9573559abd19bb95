# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import json
import runpy
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anyop.cli import load_libraries

if TYPE_CHECKING:
    from anyop.cli.capsules import Capsule, GraphCapsule

BENCH_S = 0.5
MOST_REPEATS = 10000


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--check", is_flag=True, help="Watch what the kernel does to memory.")
@click.option("--deep", is_flag=True, help="--check, and look at results: NaN, the reference.")
@click.option("--bench", is_flag=True, help="Time each call.")
@click.option("--policy", default=None, help="Other kernels: 'my_ops.scale=cpu_portable'.")
@click.option("--library", "libraries", multiple=True, type=click.Path(exists=True),
              help="A library of operators to load: of the file, or another build.")  # fmt: skip
@click.option("--import", "modules", multiple=True, metavar="MODULE|FILE.py",
              help="Python that defines the operators, to import first.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(
    files: tuple[Path, ...],
    check: bool,
    deep: bool,
    bench: bool,
    policy: str | None,
    libraries: tuple[str, ...],
    modules: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make recorded calls again.

    FILES are recorded calls and graphs, or folders of them: what `anyop run --record` wrote, or the
    file that a finding of check mode names. Status 1 if a call fails.
    """
    import anyop
    from anyop import _anyop
    from anyop.cli import capsules

    load_libraries()
    for library in libraries:  # after the installed ones, whose place another build takes
        anyop.load(library)
    for module in modules:
        runpy.run_path(module) if module.endswith(".py") else importlib.import_module(module)
    if check or deep:
        _anyop.set_checking(True, deep)
    rows = []
    paths = capsules.find(files)
    with anyop.Scope(policy=policy):
        for path in paths:
            rows.append(replayed(capsules.read(path), bench))
            if not as_json:
                show(rows[-1])
    failed = sum(bool(row["error"]) for row in rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif len(rows) > 1:
        click.echo(f"{len(rows) - failed} calls ran, {failed} failed")
    sys.exit(1 if failed else 0)


def replayed(capsule: Capsule | GraphCapsule, bench: bool) -> dict[str, Any]:
    """What one call did, as data."""
    import anyop

    row: dict[str, Any] = {
        "file": str(capsule.path), "call": capsule.call, "kernel": "", "error": "", "results": {},
        "recorded_kernel": capsule.facts["kernel"],
    }  # fmt: skip
    try:
        capsule.check_operator()
        outcome = capsule.run()
        if bench:
            start = time.perf_counter()
            capsule.run(3)
            once = max((time.perf_counter() - start) / 3, 1e-7)
            times = capsule.run(max(5, min(MOST_REPEATS, int(BENCH_S / once)))).times_ns
            row["best_ns"], row["median_ns"] = min(times), statistics.median(times)
            row["repeats"] = len(times)
    except anyop.Error as error:
        row["error"] = str(error)
        return row
    row["kernel"] = outcome.kernel
    row["results"] = {
        name: {"type": kind, "digest": digest(data)}
        for name, (kind, data) in outcome.written.items()
    }
    return row


def digest(data: bytes) -> str:
    """Tells equal results from others."""
    import hashlib

    return hashlib.sha256(data).hexdigest()[:16]


def show(row: dict[str, Any]) -> None:
    click.echo(row["call"])
    if row["error"]:
        click.secho(f"  {row['error']}", fg="red")
        return
    other = row["recorded_kernel"]
    recorded = "" if other == row["kernel"] else f" (recorded: {other})"
    click.echo(f"  kernel {row['kernel']}{recorded}")
    for name, result in row["results"].items():
        click.echo(f"  {name}: {result['type']}, digest {result['digest']}")
    if "best_ns" in row:
        from anyop.cli.graph_draw import shown_ns

        best, median = shown_ns(row["best_ns"]), shown_ns(row["median_ns"])
        click.echo(f"  {best} at best, {median} in the median of {row['repeats']} calls")
