# SPDX-License-Identifier: Apache-2.0
"""What commands that make environments show meanwhile."""

from __future__ import annotations

import time

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from anyop._environments import Environment

SHOWN = 60  # characters of a line of pip's


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
