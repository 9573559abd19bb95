# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import timeit
from typing import Any

import click
import numpy as np

import anyop
from anyop import _anyop

ROUNDS, CALLS = 40, 2000


@click.group("bench")
def command() -> None:
    """Measure anyop itself. Kernels have their own benches."""


@command.command("calls")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def calls(as_json: bool) -> None:
    """What a call costs, beside numpy.add on the same arrays of 4 floats."""
    rows = measure()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        ratio = f"{row['ratio']:.2f} of {row['beside']}" if row["beside"] else ""
        click.echo(f"{row['what']:<44} {row['ns']:7.1f} ns   {ratio}")


def measure() -> list[dict[str, Any]]:
    """Minimum over interleaved rounds; each row beside the NumPy call that does as much."""
    a, b = np.ones(4, np.float32), np.full(4, 2, np.float32)
    c = np.empty_like(a)
    add = anyop.ops.anyop.add
    given, fresh = "numpy.add(a, b, out=c)", "numpy.add(a, b)"
    statements = [
        given,
        fresh,
        "anyop.add(a, b, out=c)",
        "anyop.add(x=a, y=b, out=c)",
        "anyop.add(a, b)",
    ]
    names = {"numpy.add": np.add, "anyop.add": add, "a": a, "b": b, "c": c}
    times = interleave(statements, names)
    beside = {"anyop.add(a, b)": fresh, given: "", fresh: ""}
    rows = [
        {
            "what": name,
            "ns": round(ns, 1),
            "beside": beside.get(name, given),
            "ratio": round(ns / times[beside.get(name) or given], 3),
        }
        for name, ns in times.items()
    ]
    cpp = min(_anyop.time_call(20000, add, a, b, out=c) for _ in range(10))
    rows.append(
        {"what": "C++: plan found, checked, run", "ns": round(cpp, 1), "beside": "", "ratio": 0}
    )
    return rows


def interleave(calls: list[str], names: dict[str, Any]) -> dict[str, float]:
    """The least time of each call in ns, all taking turns; the loop's own time taken off."""
    plain = {name.replace(".", "_"): value for name, value in names.items()}
    timers = {c: timeit.Timer(c.replace(".", "_"), globals=plain) for c in [*calls, "None"]}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for call, timer in timers.items():
            best[call] = min(best[call], timer.timeit(CALLS) / CALLS * 1e9)
    loop = best.pop("None")
    return {call: ns - loop for call, ns in best.items()}
