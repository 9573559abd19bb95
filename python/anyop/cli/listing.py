# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import click

import anyop
from anyop.cli import load_libraries


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="The contracts, for programs.")
@click.argument("words", nargs=-1)
def command(as_json: bool, words: tuple[str, ...]) -> None:
    """List the operators whose name contains one of WORDS (all without)."""
    load_libraries()
    specs = [s for s in anyop.specs() if not words or any(w in s["name"] for w in words)]
    if words and not specs:
        from anyop import _anyop

        known = [str(s["name"]).rpartition(".")[2] for s in anyop.specs()]
        hint = _anyop.did_you_mean(words[0], known)
        raise click.ClickException(f"no operator's name contains {' or '.join(words)}.{hint}")
    if as_json:
        click.echo(json.dumps(specs, indent=1))
        return
    print_table(specs)


def print_table(specs: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("operator", no_wrap=True)
    table.add_column("what it computes")
    table.add_column("kernels on this machine")
    other = {spec["name"]: [d for d in spec["devices"] if d != "cpu"] for spec in specs}
    has_devices = any(other.values())  # of loaded libraries: most programs have the CPU alone
    if has_devices:
        table.add_column("devices")
    for spec in specs:
        kernels = [k["name"] for k in spec["kernels"] if k["state"] == "available"]
        if spec["means"] and not spec["kernels"]:
            kernels = ["its composition"]
        row = [spec["name"], summary(spec), " ".join(kernels)]
        table.add_row(*row, *([", ".join(spec["devices"])] if other[spec["name"]] else []))
    Console().print(table)
    click.echo(f"{len(specs)} operators. Try: anyop explain OP --shape 'x=f32[2,8]'")


def summary(spec: dict[str, Any]) -> str:
    """The first line of the document, without the name."""
    line = str(spec["doc"]).partition("\n")[0]
    name = str(spec["name"]).rpartition(".")[2]
    return line.removeprefix(f"{name}: ")
