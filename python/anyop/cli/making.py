# SPDX-License-Identifier: Apache-2.0
"""What commands that make environments show meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from anyop._environments import PYTORCH, Environment

SHOWN = 60  # characters of a line of pip's


def arguments(of: str, known: Collection[str], default: str) -> Callable[[Any], Any]:
    """The folder, --version and --index. of: what has the versions; default: a word or a version
    that is taken without one.
    """
    listed = ", ".join(f"{v} (default)" if v == default else v for v in known)
    url = f"A further package index, as {PYTORCH}, where torch has no CUDA in it."

    def decorate(function: Any) -> Any:
        for add in (
            click.option("--index", default="", metavar="URL", help=url),
            click.option("--version", default="", help=f"Of {of}: {listed}."),
            click.argument("folder", type=click.Path(path_type=Path)),
        ):
            function = add(function)
        return function

    return decorate


def make(environment: Environment, what: str, index: str) -> str:
    """Makes it, or renews the anyop in one that is there. Returns a sentence: what was installed,
    "" where it was there. index: as in Environment.install.
    """
    if environment.is_installed:
        environment.refresh()
        click.echo(f"{what} is in {environment.folder} already; this anyop is beside it now.")
        return ""
    start = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        shown = ""

        def show(step: str, line: str) -> None:
            nonlocal shown
            if step != shown and not console.is_terminal:
                click.echo(f"  {step}", err=True)
            shown = step
            text = f"{step}: {line[:SHOWN]}" if line else step
            progress.update(task, description=text.replace("[", "\\["))

        environment.install(index, show)
    return f"installed {what} in {environment.folder} ({time.monotonic() - start:.0f} s)."
