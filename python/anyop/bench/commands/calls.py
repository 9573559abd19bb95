# SPDX-License-Identifier: Apache-2.0
"""`anyop bench calls`: what a call costs beside the framework's own."""

from __future__ import annotations

import importlib
import importlib.util
import json
from typing import Any

import click
import numpy as np

import anyop
from anyop import _anyop
from anyop.bench.commands.interleave import Row, interleave

HOSTS = ("numpy", "torch", "jax", "mindspore")


@click.command("calls")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--host", type=click.Choice(HOSTS), help="Only this host's rows.")
@click.option("--compiled", is_flag=True, help="Also what takes a minute to compile.")
def calls(as_json: bool, host: str | None, compiled: bool) -> None:
    """What a call costs on arrays of 4 floats, beside what the framework offers."""
    rows = [row for name in ([host] if host else HOSTS) for row in measure_host(name, compiled)]
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=1))
        return
    for row in rows:
        ratio = f"{row.ratio:6.3f} of {row.beside}" if row.ratio is not None else ""
        click.echo(f"{row.what:<50} {row.ns:8.1f} ns  {ratio}".rstrip())


def measure() -> list[Row]:
    """Minimum over interleaved rounds; each row beside the NumPy call that does as much."""
    a, b = np.ones(4, np.float32), np.full(4, 2, np.float32)
    c = np.empty_like(a)
    add = anyop.ops.anyop.add
    given, fresh = "numpy.add(a, b, out=c)", "numpy.add(a, b)"
    names: dict[str, Any] = {"numpy_add": np.add, "anyop_add": add, "a": a, "b": b, "c": c}
    rows = interleave(
        [
            (given, "numpy_add(a, b, out=c)", ""),
            (fresh, "numpy_add(a, b)", ""),
            ("anyop.add(a, b, out=c)", "anyop_add(a, b, out=c)", given),
            ("anyop.add(x=a, y=b, out=c)", "anyop_add(x=a, y=b, out=c)", given),
            ("anyop.add(a, b)", "anyop_add(a, b)", fresh),
        ],
        names,
    )
    cpp = min(_anyop.time_call(20000, add, a, b, out=c) for _ in range(10))
    return [*rows, Row("C++: plan found, checked, run", round(cpp, 1), "", None)]


def measure_host(host: str, compiled: bool = False) -> list[Row]:
    """The rows of a host; none where it is not installed. compiled: those that compile long too."""
    if host == "numpy":
        return measure()
    if importlib.util.find_spec(host) is None:
        click.echo(f"{host} is not installed: no rows of its calls.", err=True)
        return []
    commands = importlib.import_module(f"anyop.bench.commands.calls_{host}")
    rows: list[Row] = commands.measure()
    if compiled and hasattr(commands, "measure_compiled"):
        rows += commands.measure_compiled()
    return rows
