# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from anyop import _sanitizer
from anyop._packages import tool
from anyop.cli.project import Project, build, build_sanitized, find_project, shown

SANITIZE = click.option(
    "--sanitize", type=click.Choice(_sanitizer.NAMES), default=None,
    help="With the compiler's thread sanitizer, which finds races between parts of a kernel.",
)  # fmt: skip
_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")


@click.command("build")
@_FOLDER
@click.option("--watch", is_flag=True, help="Build again whenever a source changes, until Ctrl-C.")
@click.option("--debug", is_flag=True, help="Without optimisation, for a debugger.")
@click.option(
    "--ascend-compiler", metavar="PATH",
    help="bisheng of the vendor's toolkit, which makes kernels in AscendC for chips too, from now "
    "on; \"\" for none.",
)  # fmt: skip
@SANITIZE
def command(
    folder: Path, watch: bool, debug: bool, ascend_compiler: str | None, sanitize: str | None
) -> None:
    """Compile what has changed in the package in FOLDER.

    The sources are checked first (`anyop check`). The library is made in build/anyop/lib, where
    `import` finds it if the package is imported from its source tree: in pytest, after
    `anyop develop`, or with src/ in PYTHONPATH. A build that fails leaves the old library there.

    `--sanitize thread` builds in a folder of its own, build/anyop/thread, for
    `anyop test --sanitize thread` alone: no import takes that library.

    What --ascend-compiler makes was never run on a chip (docs/ascend.md).
    """
    project = find_project(folder)
    if sanitize:
        if watch or debug:
            raise click.UsageError("--sanitize goes with neither --watch nor --debug.")
        if ascend_compiler is not None:
            raise click.UsageError("--sanitize does not go with --ascend-compiler.")
        sys.exit(0 if build_sanitized(project, sanitize) else 1)
    worked = build(project, debug, for_chips(ascend_compiler))
    if watch:
        watch_sources(project, debug)
    elif not worked:
        sys.exit(1)


def for_chips(compiler: str | None) -> list[str]:
    """What CMake is told of the vendor's compiler. It is an error where it can be none."""
    if compiler is None:
        return []
    if compiler:
        checks = tool("ascend_compiler")
        if why := checks.refused(compiler):
            raise click.ClickException(why)
        compiler = checks.found(compiler)
    return [f"-DANYOP_ASCEND_COMPILER={compiler}"]


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
