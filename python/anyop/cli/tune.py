# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

import anyop
from anyop import _anyop, _tune
from anyop.cli import load_libraries


@click.command("tune")
@click.argument("ops", nargs=-1)
@click.option(
    "--file", type=click.Path(), help="Instead of ANYOP_TUNED or the file in the cache folder."
)
@click.option("--show", "only_show", is_flag=True, help="Measure nothing; print what is recorded.")
@click.option("--clear", is_flag=True, help="Remove the file: first kernels are taken again.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(
    ops: tuple[str, ...], file: str | None, only_show: bool, clear: bool, as_json: bool
) -> None:
    """Measure pairs of kernels, and record which ones are the faster ones on this machine.

    Where an operator has two such kernels, which round differently, every process takes the first
    until this command was run; from then on the faster one. All loaded operators, or OPS.
    """
    if clear and (only_show or ops):
        raise click.UsageError("--clear removes the whole file: it goes with --file alone.")
    load_libraries()
    path = _tune.file_of(file)
    if clear:
        was_there = _anyop.remove_tuned(path)
        click.echo(f"{path}: {'removed' if was_there else 'there is no such file'}")
        return
    if only_show:
        choices, problem = _tune.read(path)
        names = {str(anyop.info(op)["name"]) for op in ops}
        choices = [c for c in choices if not names or c.op in names]
    else:
        choices, problem = measured(ops, show_progress=not as_json), ""
        _tune.record(path, choices)
    if as_json:
        rows = [{**c._asdict(), "taken": c.taken, "stale": c.stale} for c in choices]
        click.echo(json.dumps({"file": path, "problem": problem, "choices": rows}, indent=1))
    else:
        show(path, choices, problem, is_new=not only_show)


def measured(ops: Sequence[str], show_progress: bool) -> list[anyop.TunedChoice]:
    """Every choice of these operators, or of all."""
    names = _tune.wanting(ops)
    if not show_progress:
        return [choice for name in names for choice in _tune.measure(name)]
    from rich.console import Console
    from rich.progress import Progress

    choices: list[anyop.TunedChoice] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            choices += _tune.measure(name)
            progress.advance(task)
    return choices


def show(path: str, choices: Sequence[anyop.TunedChoice], problem: str, is_new: bool) -> None:
    """The table, and what it means."""
    if problem:
        click.echo(f"{path}: {problem}. Where two kernels could be measured, the first is taken.")
    elif choices:
        print_table(choices)
        if is_new:
            click.echo(f"Written to {path}. Processes that start now take these kernels.")
        else:
            click.echo(f"{len(choices)} choices of {path}")
    elif is_new:
        click.echo("No two kernels want to be measured on this machine: nothing was written.")
    else:
        click.echo(f"{path} holds no choice of these operators.")


def print_table(choices: Sequence[anyop.TunedChoice]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("operator", "calls", "first kernel", "second kernel", "taken"):
        table.add_column(column)
    for c in choices:
        cells: list[Any] = [c.op, c.call, timed(c.first, c.first_ns), timed(c.second, c.second_ns)]
        table.add_row(*[escape(cell) for cell in cells], escape(c.stale or c.taken))
    Console(width=max(Console().width, 120)).print(table)


def timed(kernel: str, ns: float) -> str:
    return f"{kernel} {ns:.0f} ns" if ns < 1000 else f"{kernel} {ns / 1000:.1f} us"
