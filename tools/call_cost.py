#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether calls cost what they cost before: the call benches of two built trees, in turns.

    tools/call_cost.py OTHER [TREE]

Both are folders in which ./check or ./demo was run: C++ programs come from build/release, hosts of
Python from .venv. Each round runs what is measured in both trees, one after the other, in changing
order, Python in new processes. Of each benchmark it prints the median of the ratios (second over
first tree) and its 95 % interval, by the ranks of sorted ratios. A benchmark costs more if the
lower end is above 1.02, or if it takes more than 2 instructions more per call, where `perf` counts
them or --count valgrind asks for it. Exit code 1 if anything costs more.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

PROGRAMS = ("runtime_call_bench", "hosting_bound_call_bench", "graph_replay_bench")
HOSTS = ("cpp", "numpy", "torch")
WORKER = Path(__file__).with_name("call_cost_worker.py")
MOST = 1.02  # of the interval's lower end
MOST_INSTRUCTIONS = 2.0  # per call
TURNS = 5  # times that each call of a pair of processes is measured
# How each counter is started, what it prints, and how many calls it is worth.
COUNTERS = {
    "perf": (["perf", "stat", "-x,", "-e", "instructions:u"], r"^(\d+),.*instructions", 100_000),
    "valgrind": (
        ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"],
        r"I\s+refs:\s+([\d,]+)",
        1_000,
    ),
}


@dataclass
class Measured:
    """A benchmark of both trees. place: a C++ program, or a host of Python."""

    place: str
    name: str
    ratios: list[float] = field(default_factory=list)
    ns: list[float] = field(default_factory=list)  # of the second tree


def environment(tree: Path) -> dict[str, str]:
    libraries = str(tree / "build/release/lib")  # of a build that was copied from elsewhere
    fixed = {"ANYOP_THREADS": "1", "PYTHONHASHSEED": "0", "LD_LIBRARY_PATH": libraries}
    return {**os.environ, **fixed}


def cpp_command(tree: Path, program: str, name: str, time: str) -> list[str]:
    arguments = [f"--benchmark_filter={name}", f"--benchmark_min_time={time}"]
    return [str(tree / "build/release/tests" / program), *arguments]


def run_cpp(tree: Path, program: str, name: str) -> dict[str, float]:
    """ns of each benchmark."""
    for time in ("0.03s", "0.03"):  # an older Google Benchmark wants a number alone
        command = [*cpp_command(tree, program, name, time), "--benchmark_format=json"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(tree)
        )
        if done.returncode == 0:
            break
    else:
        raise click.ClickException(f"{' '.join(command)}: {done.stderr.strip()}")
    if not done.stdout.strip():  # no benchmark of this program has such a name
        return {}
    return {row["name"]: float(row["cpu_time"]) for row in json.loads(done.stdout)["benchmarks"]}


class Worker:
    """A process of a tree's Python that measures calls when asked."""

    def __init__(self, tree: Path, host: str) -> None:
        self.process = subprocess.Popen(
            [str(tree / ".venv/bin/python"), str(WORKER), host],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tree),
            cwd="/",  # not where a folder `python` or `anyop` could be taken for the package
        )
        self.names = self.answer().split("\t")

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise click.ClickException(
                f"{self.process.args!r} ended with status {self.process.wait()}."
            )
        return line.strip()

    def ns(self, name: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.answer())

    def end(self) -> None:
        self.process.communicate()


def measure_cpp(rows: dict[str, Measured], first: Path, second: Path, match: str) -> None:
    for program in PROGRAMS:
        pair = [first, second]
        random.shuffle(pair)
        took = {tree: run_cpp(tree, program, match) for tree in pair}
        for name in took[first].keys() & took[second].keys():
            row = rows.setdefault(f"{program}: {name}", Measured(program, name))
            row.ratios.append(took[second][name] / took[first][name])
            row.ns.append(took[second][name])


def measure_python(
    rows: dict[str, Measured], host: str, first: Path, second: Path, match: str
) -> None:
    workers = {tree: Worker(tree, host) for tree in (first, second)}
    names = [n for n in workers[first].names if n in workers[second].names and re.search(match, n)]
    for name in names:
        turns = []
        for _ in range(TURNS):
            pair = [first, second]
            random.shuffle(pair)
            took = {tree: workers[tree].ns(name) for tree in pair}
            turns.append((took[first], took[second]))
        # One of each pair of processes: how memory lies is the same for all of its turns.
        ratio = statistics.median(theirs / ours for ours, theirs in turns)
        row = rows.setdefault(f"{host}: {name}", Measured(host, name))
        row.ratios.append(ratio)
        row.ns.append(min(theirs for _, theirs in turns))
    for worker in workers.values():
        worker.end()


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The median, and the ends of its 95 % interval: order statistics of the binomial."""
    ordered, n = sorted(ratios), len(ratios)
    reach = 0.98 * math.sqrt(n)  # 1.96 standard deviations of n/2 successes
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def instructions(tree: Path, row: Measured, counter: str) -> float | None:
    """Per call, from two runs of known length; None where nothing counts them."""
    if counter not in COUNTERS or not shutil.which(counter):
        return None
    start, pattern, calls = COUNTERS[counter]
    counts = []
    for number in (calls, 3 * calls):
        command = (
            cpp_command(tree, row.place, f"^{row.name}$", f"{number}x")
            if row.place in PROGRAMS
            else [str(tree / ".venv/bin/python"), str(WORKER), row.place, row.name, str(number)]
        )
        done = subprocess.run(
            [*start, *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment(tree),
            cwd="/",
        )
        found = re.search(pattern, done.stderr, re.M)
        if not found:
            return None
        counts.append(int(found[1].replace(",", "")))
    return (counts[1] - counts[0]) / (2 * calls)


def judged(row: Measured, first: Path, second: Path, counter: str) -> dict[str, object]:
    middle, low, high = interval(row.ratios)
    counted = [instructions(tree, row, counter) for tree in (first, second)]
    more = None if None in counted else counted[1] - counted[0]  # type: ignore[operator]
    return {
        "benchmark": f"{row.place}: {row.name}",
        "ns": statistics.median(row.ns),
        "ratio": middle,
        "low": low,
        "high": high,
        "more_instructions": more,
        "costs_more": low > MOST or (more is not None and more > MOST_INSTRUCTIONS),
    }


@click.command(help=__doc__)
@click.argument("first", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument(
    "second", type=click.Path(exists=True, file_okay=False, path_type=Path), default="."
)
@click.option(
    "--host", "hosts", multiple=True, type=click.Choice(HOSTS), help="These alone; may be repeated."
)
@click.option("--rounds", default=25, show_default=True, help="Pairs of runs of each program.")
@click.option("--match", default=".", help="A regular expression: these benchmarks alone.")
@click.option("--count", default="perf", type=click.Choice((*COUNTERS, "none")), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON.")
def main(
    first: Path,
    second: Path,
    hosts: tuple[str, ...],
    rounds: int,
    match: str,
    count: str,
    as_json: bool,
) -> None:
    """See above."""
    first, second = first.resolve(), second.resolve()
    rows: dict[str, Measured] = {}
    for _ in track(range(rounds), description="rounds", console=Console(stderr=True)):
        for host in hosts or HOSTS:
            if host == "cpp":
                measure_cpp(rows, first, second, match)
            else:
                measure_python(rows, host, first, second, match)
    found = [
        judged(rows[key], first, second, count)
        for key in track(sorted(rows), description="instructions", console=Console(stderr=True))
    ]
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        show(found)
    sys.exit(any(row["costs_more"] for row in found))


def show(rows: list[dict[str, object]]) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("benchmark", "ns", "ratio", "95 % interval", "instructions", ""):
        table.add_column(column, no_wrap=True)
    for row in rows:
        more = row["more_instructions"]
        table.add_row(
            str(row["benchmark"]),
            f"{row['ns']:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            "" if more is None else f"{more:+.1f}",
            "costs more" if row["costs_more"] else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
