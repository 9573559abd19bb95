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
    """Write the type stubs of a library's operators to OUT, or print them.

    Wheels of anyop and of packages that `anyop build` has built hold theirs.
    """
    load_libraries()
    if library not in [name for name, _, _ in anyop._anyop.libraries()]:
        raise click.ClickException(f"no library '{library}' is loaded. Try: anyop list")
    text = stubs(library)
    if out is None:
        click.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {out}.")
