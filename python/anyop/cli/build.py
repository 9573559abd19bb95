# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from anyop.cli.project import Project, build, find_project, shown

_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")


@click.command("build")
@_FOLDER
@click.option("--watch", is_flag=True, help="Build again whenever a source changes, until Ctrl-C.")
@click.option("--debug", is_flag=True, help="Without optimisation, for a debugger.")
def command(folder: Path, watch: bool, debug: bool) -> None:
    """Compile what has changed in the package in FOLDER.

    The sources are checked first (`anyop check`). The library is made in build/anyop/lib, where
    `import` finds it if the package is imported from its source tree: in pytest, after
    `anyop develop`, or with src/ in PYTHONPATH. A build that fails leaves the old library there.
    """
    project = find_project(folder)
    worked = build(project, debug)
    if watch:
        watch_sources(project, debug)
    elif not worked:
        sys.exit(1)


def watch_sources(project: Project, debug: bool) -> None:
    try:
        watch = importlib.import_module("watchfiles").watch
    except ModuleNotFoundError:
        raise click.ClickException(
            "--watch needs watchfiles. Try: pip install watchfiles"
        ) from None
    click.echo(f"Watching {shown(project.operators)} ...")
    for _ in watch(project.operators, project.root / "CMakeLists.txt", raise_interrupt=False):
        build(project, debug)
