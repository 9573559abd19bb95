# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from anyop.cli.launch import launch, new_folder


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("command_line", metavar="-- COMMAND...", nargs=-1, required=True,
                type=click.UNPROCESSED)  # fmt: skip
@click.option("--record", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write the calls of operators to this folder, a file each.")  # fmt: skip
@click.option("--calls", default=100, show_default=True, type=click.IntRange(1),
              help="The most calls that a process records.")  # fmt: skip
@click.option("--each", default=1, show_default=True, type=click.IntRange(1),
              help="Of equal calls (operator, shapes, kernel), how many are recorded.")  # fmt: skip
@click.option("--mib", default=1024, show_default=True, type=click.IntRange(1),
              help="The most MiB that a process records.")  # fmt: skip
@click.option("--check", is_flag=True, help="Watch what every kernel does to memory.")
@click.option("--deep", is_flag=True, help="--check, and look at results: NaN, the reference.")
def command(
    command_line: tuple[str, ...],
    record: Path | None,
    calls: int,
    each: int,
    mib: int,
    check: bool,
    deep: bool,
) -> None:
    """Run a program and watch its calls of operators.

    \b
      anyop run --record calls -- python program.py
      anyop replay calls --bench
      anyop run --check -- ./server --port 8000

    The program may be of any language. A graph is recorded as a folder, with its weights and its
    state, beside the calls that it makes. A kernel that crashes is named on standard error, with
    its shapes.
    """
    settings = {"ANYOP_CRASH": "1"}
    if check or deep:
        settings["ANYOP_CHECK"] = "deep" if deep else "1"
    if record:
        folder = new_folder(record)
        before = set(folder.iterdir())
        settings |= {
            "ANYOP_RECORD": str(folder), "ANYOP_RECORD_CALLS": str(calls),
            "ANYOP_RECORD_EACH": str(each), "ANYOP_RECORD_MIB": str(mib),
        }  # fmt: skip
    status = launch(command_line, settings)
    if record:
        tell(folder, set(folder.iterdir()) - before, calls)
    sys.exit(status)


def tell(folder: Path, made: set[Path], limit: int) -> None:
    """On standard error: standard output is the program's. limit: of a process."""
    if not made:
        text = "No call was recorded: the program called no operator of anyop on the CPU."
        click.secho(text, fg="yellow", err=True)
        return
    files = "1 call" if len(made) == 1 else f"{len(made)} calls"
    click.echo(f"{files} recorded. Try: anyop replay {folder}", err=True)
    by_process = Counter(path.name.partition("-")[0] for path in made)
    if max(by_process.values()) >= limit:
        text = f"A process records {limit} calls at most; what it called later is left out. Try: "
        click.secho(f"{text}--calls {10 * limit}", fg="yellow", err=True)
