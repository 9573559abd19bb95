# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import subprocess
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
    worked = build_and_describe(project, debug)
    if watch:
        watch_sources(project, debug)
    elif not worked:
        sys.exit(1)


def build_and_describe(project: Project, debug: bool) -> bool:
    """Builds; the library is loaded once, in a process of its own, and its stubs are written."""
    if not build(project, debug):
        return False
    package = project.root / "src" / project.name
    out = package / "__init__.pyi" if package.is_dir() else project.built / "stubs.pyi"
    command = [sys.executable, "-m", "anyop._stubs", str(out), project.name, str(project.library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        text = lines[-1].removeprefix("anyop.").partition(": ")[2] or lines[-1]
        click.secho(f"{shown(project.library)} cannot be loaded: {text}", fg="red", err=True)
    return done.returncode == 0


def watch_sources(project: Project, debug: bool) -> None:
    try:
        watch = importlib.import_module("watchfiles").watch
    except ModuleNotFoundError:
        raise click.ClickException(
            "--watch needs watchfiles. Try: pip install watchfiles"
        ) from None
    click.echo(f"Watching {shown(project.operators)} ...")
    for _ in watch(project.operators, project.root / "CMakeLists.txt", raise_interrupt=False):
        build_and_describe(project, debug)
