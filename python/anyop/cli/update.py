# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import click

import anyop
from anyop.cli.new import carried_files
from anyop.cli.project import find_project


@click.command("update")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option(
    "--check", "is_check", is_flag=True, help="Only say what would change; status 1 then."
)
def command(folder: Path, is_check: bool) -> None:
    """Renew the headers and build files that the package in FOLDER has of anyop."""
    root = find_project(folder).root
    wanted = {place: text for text, place in carried_files()}
    there = {
        path.relative_to(root)
        for path in (root / "include" / "anyop").rglob("*.h")
        if path.relative_to(root) not in wanted
    }
    changes = [
        ("new" if not (root / place).exists() else "changed", place)
        for place, text in wanted.items()
        if not (root / place).exists() or (root / place).read_text(encoding="utf-8") != text
    ]
    changes += [("gone", place) for place in sorted(there)]
    for what, place in changes:
        click.echo(f"{what:<8} {place}")
        if is_check:
            continue
        if what == "gone":
            (root / place).unlink()
        else:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(wanted[place], encoding="utf-8")
    if not changes:
        click.echo(f"All files are those of anyop {anyop.__version__}.")
    elif not is_check:
        click.echo(f"Now of anyop {anyop.__version__}. Try: anyop build")
    sys.exit(1 if is_check and changes else 0)
