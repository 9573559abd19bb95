# SPDX-License-Identifier: Apache-2.0
"""`anyop bench hosts`: the same operators and the same model in every host."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import click
from rich import box
from rich.console import Console
from rich.table import Table

from anyop.bench import models, runs
from anyop.bench.commands.interleave import EACH
from anyop.bench.measure import OURS


class Host(NamedTuple):
    """A row: where its numbers are among those of other commands; "": it has none.

    module: of the framework, `--host` of `anyop bench calls`. call, beside: ours and theirs there.
    ours, against: ways of `anyop bench model` in examples/smollm2.
    """

    name: str
    module: str
    call: str
    beside: str = ""
    ours: str = ""
    against: str = ""


HOSTS = (
    Host("C++", "numpy", "C++: plan found, checked, run", "", "program"),
    Host("NumPy", "numpy", "anyop.add(a, b)", "numpy.add(a, b)", "eager", "numpy"),
    Host("NumPy, graph", "numpy", "", "", "captured", "numpy"),
    Host("torch eager", "torch", "anyop.add(a, b)", "torch.add(a, b)", "torch-eager", "torch"),
    Host("torch ops", "torch", "torch.ops.anyop.add(a, b)", "torch.add(a, b)"),
    Host("torch, graph", "torch", "", "", "torch-captured", "inductor"),
    Host(
        "torch compiled", "torch", "torch.compile(anyop.add)", "torch.compile(torch.add)",
        "torch-compiled", "inductor",
    ),
    Host("JAX eager", "jax", "anyop.add(a, b), JAX arrays", "jax.numpy.add(a, b)"),
    Host(
        "JAX jit", "jax", "jax.jit(anyop.add)(a, b)", "jax.jit(jax.numpy.add)(a, b)", "jax", "jax"
    ),
    Host("JAX jit, each of a chain of 100", "jax", EACH),
    Host(
        "MindSpore PyNative, result given", "mindspore",
        "anyop.add(a, b, out=c), MindSpore's tensors", "mindspore.ops.add(a, b)",
    ),
    Host(
        "MindSpore PyNative", "mindspore", "anyop.add(a, b), MindSpore's tensors",
        "mindspore.ops.add(a, b)", "mindspore", "mindspore",
    ),
    Host(
        "MindSpore PyNative, beside Custom", "mindspore", "anyop.add(a, b), MindSpore's tensors",
        "mindspore.ops.Custom(a, b)",
    ),
    Host(
        "MindSpore PyNative, beside CustomOpBuilder", "mindspore",
        "anyop.add(a, b), MindSpore's tensors, beside CustomOpBuilder",
        "by mindspore.ops.CustomOpBuilder, add(a, b)",
    ),
    Host(
        "MindSpore graph", "mindspore", "mindspore.jit(anyop.add)",
        "mindspore.jit(mindspore.ops.add)", "mindspore-graph", "mindspore",
    ),
    Host(
        "MindSpore graph, each of a chain of 100", "mindspore", EACH,
        "each mindspore.ops.add of that chain after the first",
    ),
)  # fmt: skip
WIDTH = 110
MODULES = tuple(dict.fromkeys(host.module for host in HOSTS))


@dataclass
class Decode:
    """Tokens per second, ours and theirs; void where the likeliest tokens differ."""

    weights: str
    threads: int
    ours: float
    against: str = ""
    theirs: float | None = None
    ratio: float | None = None
    is_void: bool = False


@dataclass
class Row:
    """A host. import_ms: of anyop, once the framework is imported."""

    host: str
    call_ns: float | None = None
    beside: str = ""
    beside_ns: float | None = None
    call_ratio: float | None = None
    import_ms: float | None = None
    decode: list[Decode] = field(default_factory=list)


@dataclass
class Plan:
    """weights and threads of the model's rows; no threads: without the model."""

    weights: Sequence[str]
    threads: Sequence[int]
    steps: int = 48
    rounds: int = 3


def _listed(context: click.Context, option: click.Parameter, value: str) -> list[str]:
    return [name for name in value.replace(" ", "").split(",") if name]


@click.command("hosts")
@click.option(
    "--host", "modules", type=click.Choice(MODULES), multiple=True, help="Only rows of these."
)
@click.option("--weights", callback=_listed, default="bf16,f32", show_default=True)
@click.option("--threads", callback=_listed, default="1,2", show_default=True)
@click.option("--steps", type=click.IntRange(8), default=48, show_default=True, help="Of decode.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--without-model", is_flag=True, help="Only calls and imports: a minute.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def hosts(
    modules: Sequence[str], weights: list[str], threads: list[str], steps: int, rounds: int,
    without_model: bool, as_json: bool,
) -> None:  # fmt: skip
    """What a call costs and how fast SmolLM2 decodes in every host that is installed.

    Each framework has a process of its own, in which ours and its own way take turns, on as many
    cores as there are threads. The model is the checkout's; all of it takes some 20 minutes.
    """
    counts = [] if without_model else _counts(threads)
    rows, skipped = measure(modules or MODULES, Plan(weights, counts, steps, rounds))
    if as_json:
        told = {"machine": runs.machine(), "rows": [asdict(r) for r in rows], "skipped": skipped}
        click.echo(json.dumps(told, indent=1))
        return
    show(rows, Console(highlight=False, width=max(Console().width, WIDTH)))
    for reason in skipped:
        click.echo(reason)


def _counts(given: Sequence[str]) -> list[int]:
    cores = len(os.sched_getaffinity(0))
    if not given or not all(n.isdigit() and 0 < int(n) <= cores for n in given):
        raise click.BadParameter(
            f"must be numbers from 1 to {cores}, the cores of this process, such as 1",
            param_hint="--threads",
        )
    return sorted({int(n) for n in given})


def measure(modules: Sequence[str], plan: Plan) -> tuple[list[Row], list[str]]:
    """The rows of these frameworks, and why others are missing."""
    rows, skipped = {h.name: Row(h.name) for h in HOSTS}, list[str]()
    installed = [m for m in modules if importlib.util.find_spec(m)]
    skipped += [f"{m} is not installed: no rows of it." for m in modules if m not in installed]
    if not (models.default_folder() / "bench.py").is_file() and plan.threads:
        skipped.append("No rows of the model. Try it in a checkout.")
        plan.threads = []
    for module in installed:
        of = [h for h in HOSTS if h.module == module]
        import_ms = import_time(module)
        for host in of:
            rows[host.name].import_ms = import_ms
        _time_calls(of, rows, skipped)
        for n in plan.threads:
            _time_model(of, n, plan, rows, skipped)
    return [rows[h.name] for h in HOSTS if h.module in installed], skipped


def import_time(module: str, tries: int = 5) -> float:
    """Milliseconds that importing anyop takes once this module is imported, the least."""
    code = (
        f"import {module}, time; t = time.perf_counter(); import anyop\n"
        "print(1e3 * (time.perf_counter() - t))"
    )
    command = [sys.executable, "-c", code]
    # With the variable Python would compile anyop in each try; an installed package is compiled.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=given).stdout)
        for _ in range(tries)
    ]
    return round(min(times), 1)


def _bench(*arguments: str, cores: int = 0) -> tuple[Any, str]:
    """What a command of `anyop bench` tells as JSON; None, and why. cores: the only ones it has."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores] if cores else allowed)
    try:  # a child has its parent's cores
        done = subprocess.run(
            [sys.executable, "-m", "anyop", "bench", *arguments, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        os.sched_setaffinity(0, allowed)
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        last = (done.stderr.strip() or f"it ended with status {done.returncode}").splitlines()[-1]
        return None, f"anyop bench {' '.join(arguments)}: {last}"


def _time_calls(of: Sequence[Host], rows: dict[str, Row], skipped: list[str]) -> None:
    told, why = _bench("calls", "--host", of[0].module, *_compiled(of))
    if told is None:
        skipped.append(why)
        return
    known = {row["what"]: row["ns"] for row in told}
    for host in of:
        row = rows[host.name]
        row.call_ns, row.beside_ns = known.get(host.call), known.get(host.beside)
        if row.beside_ns is not None:  # not every machine builds all opponents
            row.beside = host.beside
        if row.call_ns is not None and row.beside_ns is not None:
            row.call_ratio = round(row.call_ns / row.beside_ns, 3)


def _compiled(of: Sequence[Host]) -> Iterator[str]:
    if any("torch.compile" in host.call or "CustomOpBuilder" in host.call for host in of):
        yield "--compiled"


def _time_model(
    of: Sequence[Host], threads: int, plan: Plan, rows: dict[str, Row], skipped: list[str]
) -> None:
    ways = [host for host in of if host.ours]
    if not ways:
        return
    against = ",".join(dict.fromkeys(h.against for h in ways if h.against)) or "none"
    told, why = _bench(
        "model", str(models.default_folder()), "--prefill", "0", "--threads", str(threads),
        "--weights", ",".join(plan.weights), "--ours", ",".join(h.ours for h in ways),
        "--against", against, "--steps", str(plan.steps), "--rounds", str(plan.rounds),
        cores=threads,
    )  # fmt: skip
    if told is None:
        skipped.append(why)
        return
    known = {row["sizes"]: row["timings"] for row in told["rows"]}
    for host in ways:
        for weights in plan.weights:
            timings = known.get(models.sizes_of(models.DECODE, weights, host.ours))
            if timings:
                rows[host.name].decode.append(_decode(weights, threads, timings, host.against))


def _decode(weights: str, threads: int, timings: dict[str, Any], against: str) -> Decode:
    ours, theirs = timings[OURS], timings.get(against)
    made = Decode(weights, threads, _speed(ours), is_void=not ours["matches"])
    if theirs:
        made.against, made.theirs = against, _speed(theirs)
        made.ratio = round(theirs["best_us"] / ours["best_us"], 2)
        made.is_void = made.is_void or not theirs["matches"]
    return made


def _speed(timing: dict[str, Any]) -> float:
    return round(1e6 / float(timing["best_us"]), 1)


def show(rows: Sequence[Row], console: Console) -> None:
    def number(value: float | None, unit: str = "", digits: int = 0) -> str:
        return "" if value is None else f"{value:.{digits}f}{unit}"

    table = Table(title="calls on 4 floats", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("host")
    for column in ("call", "beside it", "ratio", "import"):
        table.add_column(column, justify="right")
    for row in rows:
        beside = f"{row.beside} {number(row.beside_ns, ' ns')}" if row.beside else ""
        table.add_row(
            row.host, number(row.call_ns, " ns"), beside, number(row.call_ratio, "", 2),
            number(row.import_ms, " ms"),
        )  # fmt: skip
    console.print(table)
    table = Table(title="SmolLM2-135M, tokens per second", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("host", "weights"):
        table.add_column(column)
    for column in ("threads", "anyop", "beside it", "ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        for d in row.decode:
            theirs = f"{d.against} {d.theirs:.1f}" if d.against else ""
            ratio = "void" if d.is_void else number(d.ratio, " x", 2)
            table.add_row(row.host, d.weights, str(d.threads), f"{d.ours:.1f}", theirs, ratio)
    if table.row_count:
        console.print(table)
