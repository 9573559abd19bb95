# SPDX-License-Identifier: Apache-2.0
"""`anyop bench model`: a whole model beside what else runs it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import anyop
from anyop import _anyop
from anyop.bench import models, pictures, runs
from anyop.bench.commands.ops import show_ratio, write_pictures
from anyop.bench.measure import OURS, Row

WIDTH = 140


def _names(context: click.Context, option: click.Parameter, value: str | None) -> list[str]:
    return [name for name in (value or "").replace(" ", "").split(",") if name]


@click.command("model")
@click.argument("folder", type=click.Path(path_type=Path), default=models.default_folder)
@click.option("--shape", callback=_names, help="Random weights instead; such as llama-3.2-1b.")
@click.option("--weights", callback=_names, help="Such as bf16,q4_1.")
@click.option("--ours", callback=_names, help="Ways of ours, such as captured,eager.")
@click.option("--against", callback=_names, help="Opponents, such as llama,torch; or none.")
@click.option("--threads", callback=_names, help="Such as 1,2. One and all cores if not given.")
@click.option("--steps", type=click.IntRange(8), default=48, show_default=True, help="Of decode.")
@click.option("--prefill", type=click.IntRange(0), default=512, show_default=True, help="Tokens.")
@click.option("--context", callback=_names, help="Decode after so many tokens; such as 1024,4096.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--list", "listed", is_flag=True, help="What there is to choose from.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Keep the run.")
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), help="Write pictures.")
def model(
    folder: Path, shape: list[str], weights: list[str], ours: list[str], against: list[str],
    threads: list[str], steps: int, prefill: int, context: list[str], rounds: int, listed: bool,
    as_json: bool, save: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Tokens per second of a model beside other programs, with the same weights, in one run.

    FOLDER has a bench.py; the default is examples/smollm2 of the checkout. With --shape the weights
    are random, of the sizes of another model, a file of its size is written for the time of the
    run. Saved runs are for `anyop bench compare` and `plot`. Exits with 1 where one finds other
    tokens likeliest.
    """
    bench = models.load(folder)
    if listed:
        _list(bench)
        return
    if plot:
        pictures.require()
    plan = models.Plan(
        _threads(threads), steps, prefill, rounds, sorted(_numbers(context, "--context"))
    )
    rows, reasons, ceilings = run(bench, plan, weights, ours, against, shape)
    made = runs.Run(runs.machine(), rows, ceilings)
    if save:
        made.save(save)
    if as_json:
        click.echo(json.dumps(made.to_json(), indent=1))
    else:
        show(rows, Console(highlight=False, width=max(Console().width, WIDTH)))
        click.echo(f"Tuned kernels: {made.machine['tuned']}")
        for reason in reasons:
            click.echo(reason)
    if plot:
        write_pictures(made, plot)
    if any(not t.matches for row in rows for t in row.timings.values()):
        sys.exit(1)


def run(
    bench: models.ModelBench, plan: models.Plan, weights: Sequence[str], ours: Sequence[str],
    against: Sequence[str], shapes: Sequence[str] = (),
) -> tuple[list[Row], list[str], dict[str, Any]]:  # fmt: skip
    """Rows, why others are missing, and the ceilings of the run; with progress on stderr."""
    without = list(against) == ["none"]
    models.chosen(dict.fromkeys(bench.shapes, ""), shapes, (), "shape")
    formats = bench.random if shapes else bench.weights
    chosen = [
        models.chosen(formats, weights, bench.usual, "format of weights"),
        models.chosen(bench.ours, ours, bench.usual, "way of ours"),
        models.chosen(bench.opponents, [] if without else against, bench.usual, "opponent"),
    ]
    names = [found for found, _ in chosen]
    reasons = [reason for _, missing in chosen[: 2 if without else 3] for reason in missing]
    if not names[0] or not names[1]:
        raise anyop.NotAvailable(f"bench: nothing to measure. {' '.join(reasons)}")
    ceilings = dict(_anyop.ceilings())
    columns = Progress.get_default_columns()
    rows: list[Row] = []
    groups = [(shape, [kind]) for shape in shapes for kind in names[0]] or [("", names[0])]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading the model", total=None)

        def note(text: str) -> None:
            progress.update(task, description=text)

        def rounds(turns: Iterable[Any]) -> Iterable[Any]:
            listed = list(turns)
            progress.update(task, total=len(listed))
            for turn in listed:
                yield turn
                progress.advance(task)

        for shape, kinds in groups:
            with tempfile.TemporaryDirectory() as folder:
                opponents = [] if without else names[2]
                asked = models.Asked(
                    kinds, names[1], opponents, Path(folder), note, shape, plan.tokens
                )
                ways = list(bench.ways(asked))
                of = bench.of_shape(shape) if shape else bench
                rows += models.measure(of, ways, plan, ceilings, rounds, note)
                models.close(ways)
    return rows, reasons, ceilings


def _threads(given: Sequence[str]) -> list[int]:
    cores = anyop.get_num_threads()
    if not given:
        return sorted({1, cores})
    return sorted(_numbers(given, "--threads"))


def _numbers(given: Sequence[str], option: str) -> set[int]:
    if not all(n.isdigit() and int(n) > 0 for n in given):
        raise click.BadParameter("must be numbers from 1 on, such as 1,2", param_hint=option)
    return {int(n) for n in given}


def _list(bench: models.ModelBench) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("option", "name", "runs"):
        table.add_column(column)
    groups = [("--weights", bench.weights), ("--ours", bench.ours), ("--against", bench.opponents)]
    for option, known in groups:
        for name, reason in known.items():
            state = "always" if name in bench.usual else "if it is named"
            table.add_row(option, name, f"no. {reason}" if reason else state)
    for name, title in bench.shapes.items():
        table.add_row("--shape", name, f"if it is named: {title}, {', '.join(bench.random)}")
    Console(highlight=False).print(table)


def show(rows: Sequence[Row], console: Console) -> None:
    """Tokens per second, ratios to the opponents, share of the ceiling."""
    opponents = list(dict.fromkeys(n for row in rows for n in row.timings if n != OURS))
    titles = list(dict.fromkeys(row.operator for row in rows))
    table = Table(
        title=f"{', '.join(titles)}, tokens per second", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("anyop")
    ratios = [f"x {o}" for o in opponents]
    for column in ("threads", "median", "best", *ratios, "GB/s", "of the ceiling"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("match")
    for row in sorted(rows, key=lambda r: (titles.index(r.operator), *_order(r))):
        ours = row.ours
        name = row.sizes if len(titles) == 1 else f"{row.operator} {row.sizes}"
        is_read = not row.sizes.startswith(models.PREFILL) and row.moved
        table.add_row(
            name, str(row.threads), f"{1e6 / ours.median_us:.1f}",
            f"{1e6 / ours.best_us:.1f}", *(show_ratio(row, o) for o in opponents),
            f"{row.moved / ours.best_us / 1e3:.1f}" if is_read else "",
            f"{row.bound_us / ours.best_us:.0%} {row.bound_by}",
            "yes" if all(t.matches for t in row.timings.values()) else "NO",
        )  # fmt: skip
    console.print(table)
    for note in sorted(
        {
            f"{r.operator} {r.sizes}: {r.note}"
            for r in rows
            if r.note and r.sizes.startswith(models.DECODE)
        }
    ):
        console.print(note, soft_wrap=True)


def _order(row: Row) -> tuple[str, int, int]:
    """The weights' rows together, contexts by their lengths."""
    phase, weights = row.sizes.split(",")[0].rsplit(" ", 1)
    name, _, context = phase.partition(" after ")
    return f"{name} {weights}", int(context or 0), row.threads
