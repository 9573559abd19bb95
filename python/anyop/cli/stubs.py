# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import click

import anyop
from anyop._stubs import stubs
from anyop.cli import load_libraries


@click.command("stubs")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--library", default="anyop", help="The library whose operators to write.")
def command(out: Path | None, library: str) -> None:
    """Write the type stubs of a library's operators to OUT (default: beside its package)."""
    load_libraries()
    text = stubs(library)
    path = out or package_folder(library) / "__init__.pyi"
    path.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {path}.")


def package_folder(library: str) -> Path:
    file = next((f for n, _, f in anyop._anyop.libraries() if n == library), None)
    if library == "anyop":
        return Path(anyop.__file__).parent
    if file is None:
        raise click.ClickException(f"no library '{library}' is loaded. Try: anyop list")
    return Path(file).parent
