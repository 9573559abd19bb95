#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether calls cost what they cost before: the call benches of two builds, in turns.

    tools/call_cost.py OTHER/build/release build/release

Each round runs a bench of both builds, one after the other, in changing order. Of each benchmark it
prints the median of the rounds' ratios (second over first build) and its 95 % interval, by the
ranks of sorted ratios. A benchmark costs more if the lower end is above 1.02. Where `perf` counts
instructions, their number per call is compared too. Exit code 1 if anything costs more.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

PROGRAMS = ("runtime_call_bench", "hosting_bound_call_bench", "graph_replay_bench")
MOST = 1.02  # of the interval's lower end
MOST_INSTRUCTIONS = 2.0  # per call


def run(build: Path, program: str, name: str) -> dict[str, float]:
    """ns of each benchmark."""
    command = [
        str(build / "tests" / program),
        f"--benchmark_filter={name}",
        "--benchmark_min_time=0.03s",
        "--benchmark_format=json",
    ]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(build / "lib")}  # where it was copied
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:  # an older Google Benchmark wants a number alone
        command[2] = "--benchmark_min_time=0.03"
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    if not done.stdout.strip():  # no benchmark of this program has such a name
        return {}
    rows = json.loads(done.stdout)["benchmarks"]
    return {f"{program}: {row['name']}": float(row["cpu_time"]) for row in rows}


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The median, and the ends of its 95 % interval: order statistics of the binomial."""
    ordered, n = sorted(ratios), len(ratios)
    reach = 0.98 * math.sqrt(n)  # 1.96 standard deviations of n/2 successes
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def instructions(build: Path, program: str, name: str) -> float | None:
    """Per call, from two runs of known length; None where nothing counts them."""
    if not shutil.which("perf"):
        return None
    counts = []
    for calls in (100_000, 300_000):
        command = ["perf", "stat", "-x,", "-e", "instructions:u", str(build / "tests" / program)]
        command += [f"--benchmark_filter=^{name}$", f"--benchmark_min_time={calls}x"]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(build / "lib")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        number = next(
            (line.split(",")[0] for line in done.stderr.splitlines() if "instructions" in line), ""
        )
        if not number.isdigit():
            return None
        counts.append(int(number))
    return (counts[1] - counts[0]) / 200_000


@click.command(help=__doc__)
@click.argument("first", type=click.Path(exists=True, path_type=Path))
@click.argument("second", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=25, show_default=True, help="Pairs of runs of each program.")
@click.option("--match", "name", default=".", help="A regular expression: these benchmarks alone.")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON.")
def main(first: Path, second: Path, rounds: int, name: str, as_json: bool) -> None:
    """See above."""
    ratios: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    os.environ["ANYOP_THREADS"] = "1"
    for number in track(range(rounds), description="rounds", console=Console(stderr=True)):
        for program in PROGRAMS:
            pair = (first, second) if number % 2 else (second, first)
            took = {build: run(build, program, name) for build in pair}
            for row in took[first].keys() & took[second].keys():
                ratios.setdefault(row, []).append(took[second][row] / took[first][row])
                times.setdefault(row, []).append(took[second][row])
    rows = []
    for row, found in sorted(ratios.items()):
        middle, low, high = interval(found)
        program, _, bench = row.partition(": ")
        counted = [instructions(build, program, bench) for build in (first, second)]
        more = None if None in counted else counted[1] - counted[0]
        costs_more = low > MOST or (more is not None and more > MOST_INSTRUCTIONS)
        rows.append(
            {
                "benchmark": row,
                "ns": statistics.median(times[row]),
                "ratio": middle,
                "low": low,
                "high": high,
                "more_instructions": more,
                "costs_more": costs_more,
            }
        )
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        show(rows)
    sys.exit(any(row["costs_more"] for row in rows))


def show(rows: list[dict[str, object]]) -> None:
    table = Table("benchmark", "ns", "ratio", "95 % interval", "instructions", "")
    for row in rows:
        more = row["more_instructions"]
        table.add_row(
            str(row["benchmark"]),
            f"{row['ns']:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            "not counted" if more is None else f"{more:+.1f}",
            "costs more" if row["costs_more"] else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
