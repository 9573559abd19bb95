# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from anyop.cli.project import build, find_project


@click.command("develop")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def command(folder: Path) -> None:
    """Install the package in FOLDER so that imports take its source tree.

    From then on `anyop build` is all that a change needs. `pip install -e .` does the same.
    """
    project = find_project(folder)
    if not build(project):
        sys.exit(1)
    # The library that is built here is what the package loads: nothing has to be compiled again.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
           "--config-settings=wheel.cmake=false", "-e", str(project.root)]  # fmt: skip
    if install(pip):
        raise click.ClickException("pip cannot install the package. Its text is above.")
    click.echo(
        f"`import {project.name}` takes {project.root} from now on. After a change: anyop build"
    )


def install(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode
