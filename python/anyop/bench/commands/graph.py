# SPDX-License-Identifier: Apache-2.0
"""What graphs cost and save beside their kernels."""

from __future__ import annotations

import gc
import importlib.util
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import anyop
from anyop.bench import models
from anyop.bench.commands.interleave import interleave
from anyop.bench.runs import machine

PROGRAMS = ("graph_replay_bench", "graph_memory_plan_bench")
NODES = 200


@dataclass
class Row:
    """A number."""

    part: str
    what: str
    value: float
    unit: str
    note: str = ""


@click.command("graph")
@click.option("--quick", is_flag=True, help="Fewer repeats: seconds.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--save", type=click.Path(path_type=Path), help="The same JSON into a file.")
@click.option(
    "--programs", type=click.Path(path_type=Path), default=Path("build/release/tests"),
    show_default=True, help="Where the C++ benches of a build with tests are.",
)  # fmt: skip
def graph(quick: bool, as_json: bool, save: Path | None, programs: Path) -> None:
    """What a replay costs beside its kernels, how long graphs take to make, and their memory."""
    skipped: list[str] = []
    rows = [*calls(quick), *decoder_rows(quick, skipped)]
    for program in PROGRAMS:
        rows += cpp(programs / program, quick, skipped)
    rows += torch_rows(quick, skipped)
    told = {"machine": machine(), "rows": [asdict(r) for r in rows], "skipped": skipped}
    if save:
        save.write_text(json.dumps(told, indent=1))
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    show(rows)
    for reason in skipped:
        click.echo(reason)


def decoder_rows(quick: bool, skipped: list[str]) -> Iterator[Row]:
    """Rows of whole decoders, which a checkout has beside its model."""
    path = models.default_folder() / "decoder_graphs.py"
    if not path.is_file():
        skipped.append(f"No rows of decoders: {path} does not exist. Try it in a checkout.")
        return
    decoders = models.module_of(path)
    yield from (*overheads(decoders, quick), *making(decoders, quick), *memory(decoders))


def calls(quick: bool) -> Iterator[Row]:
    """A graph of one operator beside the operator itself, on 4 floats."""
    x, y = np.ones(4, np.float32), np.empty(4, np.float32)
    add = anyop.ops.anyop.add
    one = anyop.graph(lambda x: add(x, x), "f32[4]")

    def chain(x: Any) -> Any:
        for _ in range(NODES):
            x = add(x, x)
        return x

    names = {"add": add, "g": one, "many": anyop.graph(chain, "f32[4]"), "x": x, "y": y}
    given, fresh = "the operator, result given", "the operator, fresh result"
    rows = interleave(
        [
            (given, "add(x, x, out=y)", ""),
            (fresh, "add(x, x)", ""),
            ("graph of one node, result given", "g(x, out=y)", given),
            ("graph of one node, fresh result", "g(x)", fresh),
            ("graph of 200 nodes", "many(x, out=y)", ""),
        ],
        names,
        calls=200 if quick else 1000,
    )
    ns = {row.what: row.ns for row in rows}
    for row in rows[:4]:
        note = f"{row.ratio:.2f} of {row.beside}" if row.ratio else ""
        yield Row("a call from Python", row.what, row.ns, "ns", note)
    per_node = (ns["graph of 200 nodes"] - ns["graph of one node, result given"]) / (NODES - 1)
    yield Row("replay", "a node, with its kernel on 4 floats", round(per_node, 2), "ns")


def _best(f: Callable[[], Any], repeats: int) -> float:
    """Seconds, the least. Without Python's collections of garbage, which would be counted."""
    best = float("inf")
    gc.disable()
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    gc.enable()
    return best


def overheads(decoders: Any, quick: bool) -> Iterator[Row]:
    """A decode step: what is beside the kernels' own time in one replay, the least of both."""
    threads = anyop.get_num_threads()
    try:
        for n, name, shape in (
            (1, "next to no work", decoders.TINY),
            (2, "SmolLM2's shape, f32", decoders.SMOLLM2),
        ):
            if n > threads:
                continue
            anyop.set_num_threads(n)
            name += f", {n} thread{'s' if n > 1 else ''}"
            yield from _overhead(decoders, name, shape, quick)
    finally:
        anyop.set_num_threads(threads)


def _overhead(decoders: Any, name: str, shape: Any, quick: bool) -> Iterator[Row]:
    step, compiled = decoders.of_arrays(shape)
    given, repeats = decoders.decode_inputs(), 20 if quick else 200
    out = compiled(*given)
    whole = kernels = float("inf")
    for _ in range(repeats):  # in turns: both meet the same machine
        whole = min(whole, _best(lambda: compiled(*given, out=out), 3) * 1e6)
        replay = sum(r.ns_min for r in compiled.profile(*given, repeats=1))
        kernels = min(kernels, replay / 1e3)
    eager = _best(lambda: step(*given), repeats) * 1e6
    part = f"a decode step of {shape.layers} layers, {name}"
    yield Row(part, "operator by operator", round(eager, 1), "us")
    yield Row(part, "captured", round(whole, 1), "us")
    rest, nodes = max(whole - kernels, 0), compiled.stats().nodes
    yield Row(part, "captured, without its kernels", round(rest, 1), "us", f"{nodes} nodes")


def making(decoders: Any, quick: bool) -> Iterator[Row]:
    """Capture, and planning for sizes that were not met before."""
    made = decoders.of_inputs(decoders.SMOLLM2)
    nodes, repeats = made.stats().nodes, 3 if quick else 10
    capture = _best(lambda: decoders.of_inputs(decoders.SMOLLM2), min(repeats, 5)) * 1e3
    sizes = iter(range(100, 200))
    plan = _best(lambda: made.memory(t=next(sizes)), repeats) * 1e3
    part = "making a graph of SmolLM2's shape"
    yield Row(part, f"capture: trace, check, passes ({nodes} nodes)", round(capture, 2), "ms")
    yield Row(part, "plans and memory for a new size", round(plan, 3), "ms")
    yield Row(part, "the same, per 1,000 nodes", round(plan / nodes * 1e3, 3), "ms")


def memory(decoders: Any) -> Iterator[Row]:
    """The arena of a replay against the least that any plan needs."""
    for name, shape in (("SmolLM2", decoders.SMOLLM2), ("Llama-3-8B-shaped", decoders.LLAMA_8B)):
        made = decoders.of_inputs(shape)
        for what, t in (("prefill 512", 512), ("decode", 1)):
            m = made.memory(t=t)
            yield Row(
                "memory plan / lower bound", f"{name}, {shape.layers} layers, {what}",
                round(m.peak_bytes / m.bound_bytes, 4), "x",
                f"{m.peak_bytes / 2**20:.2f} MiB; unshared {m.unshared_bytes / 2**20:.1f} MiB",
            )  # fmt: skip


def cpp(program: Path, quick: bool, skipped: list[str]) -> Iterator[Row]:
    """The rows of a C++ bench: kernels that do nothing, parallel regions, hard memory plans."""
    if not program.exists():
        skipped.append(
            f"No rows from C++: {program} does not exist. Try --programs, with the folder of a "
            "build with -DANYOP_BUILD_TESTS=ON."
        )
        return
    command = [str(program), "--benchmark_format=json", "--benchmark_repetitions=3"]
    command.append(f"--benchmark_min_time={0.05 if quick else 0.3}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        skipped.append(f"No rows from C++: {program} failed: {done.stderr.strip()[-300:]}")
        return
    best: dict[str, dict[str, Any]] = {}
    for run in json.loads(done.stdout)["benchmarks"]:
        known = best.get(run["run_name"])
        is_better = known is None or run["real_time"] < known["real_time"]
        if run.get("run_type") == "iteration" and is_better:
            best[run["run_name"]] = run
    part = f"C++, {program.name}"
    for name, run in best.items():
        counters = [k for k in run if k.startswith("ns_per_") or k.endswith("_of_bound")]
        for k in counters:
            unit = "ns" if k.startswith("ns") else "x"
            shown = f"{name}, {k.removeprefix('ns_').replace('_', ' ')}"
            yield Row(part, shown, round(run[k] * (1e9 if run[k] < 1e-6 else 1), 3), unit)
        if not any(k.startswith("ns_per_") for k in counters):
            yield Row(part, name, round(run["real_time"], 2), run["time_unit"])


def torch_rows(quick: bool, skipped: list[str]) -> list[Row]:
    """Calls through torch.compile(backend="anyop") beside Inductor's."""
    if importlib.util.find_spec("torch") is None:
        skipped.append("No rows for torch.compile: torch is not installed.")
        return []
    if importlib.util.find_spec("anyop.bench.commands.graph_torch") is None:
        skipped.append("No rows for torch.compile: this build has none.")
        return []
    module = importlib.import_module("anyop.bench.commands.graph_torch")
    known = Row.__dataclass_fields__
    return [Row(**{k: v for k, v in row.items() if k in known}) for row in module.rows(quick)]


def show(rows: list[Row]) -> None:
    last = ""
    for row in rows:
        if row.part != last:
            click.secho(("\n" if last else "") + row.part, bold=True)
        last = row.part
        click.echo(f"  {row.what:<52} {row.value:>9g} {row.unit:<3} {row.note}".rstrip())
