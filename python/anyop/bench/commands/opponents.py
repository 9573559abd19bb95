# SPDX-License-Identifier: Apache-2.0
"""`anyop bench opponents`: those that need an environment of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import anyop
from anyop.bench.interpreters import OPPONENTS, Opponent

COMPILED = re.compile(r"\[(\d+/\d+)\]")
SHOWN = 70  # characters of a line of pip's


@click.command("opponents")
@click.option("--install", type=click.Choice(list(OPPONENTS)), multiple=True, help="Anew.")
@click.option(
    "--use",
    nargs=2,
    multiple=True,
    metavar="NAME PYTHON",
    help="An environment that has it already: the path of its interpreter.",
)
@click.option("--remove", type=click.Choice(list(OPPONENTS)), multiple=True)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def opponents(
    install: Sequence[str], use: Sequence[tuple[str, str]], remove: Sequence[str], as_json: bool
) -> None:
    """Opponents with an environment of their own: what there is, and installing them.

    Each runs in a process of its own interpreter; its rounds interleave with ours.
    """
    for name in remove:
        OPPONENTS[name].remove()
    for name, python in use:
        if name not in OPPONENTS:
            raise click.BadParameter(
                f"no opponent is called '{name}'. There are {', '.join(OPPONENTS)}.",
                param_hint="--use",
            )
        OPPONENTS[name].use(Path(python))
    for name in install:
        _install(OPPONENTS[name])
    told = [_facts(o) for o in OPPONENTS.values()]
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("opponent", "what", "installed"):
        table.add_column(column)
    for o in told:
        table.add_row(o["name"], o["what"], o["installed"] or f"no. Try: {o['try']}")
    Console(highlight=False).print(table)


def _install(opponent: Opponent) -> None:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        title = f"{opponent.name} (takes {opponent.takes})"
        task = progress.add_task(title)

        def show(line: str) -> None:
            step = COMPILED.search(line)
            text = f"compiled {step[1]}" if step else line[:SHOWN]
            progress.update(task, description=f"{title}: {text}".replace("[", "\\["))

        opponent.install(show)
    click.echo(f"installed {opponent.name} in {opponent.folder}", err=True)


def _facts(opponent: Opponent) -> dict[str, Any]:
    installed = ""
    if opponent.is_installed:
        try:
            installed = ", ".join(f"{k} {v}" for k, v in opponent.about().items())
        except anyop.NotAvailable as error:
            installed = f"broken: {error}"
    return {
        "name": opponent.name,
        "what": opponent.what,
        "folder": str(opponent.folder),
        "installed": installed,
        "try": f"anyop bench opponents --install {opponent.name} ({opponent.takes})",
    }
