# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from anyop._source_check import check_sources


@click.command("check")
@click.argument(
    "paths", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[FILE|FOLDER]..."
)
@click.option("--json", "as_json", is_flag=True, help="For editors.")
def command(paths: tuple[Path, ...], as_json: bool) -> None:
    """Say what is wrong in sources of operators, without compiling them.

    Signatures, expressions, the parameters of kernels and references, and, in a FOLDER (default:
    ops, or the current one), what the build would leave out in silence.
    """
    default = Path("ops") if Path("ops").is_dir() else Path()
    findings = check_sources(list(paths) or [default])
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo("Nothing is wrong.")
    sys.exit(1 if findings else 0)
