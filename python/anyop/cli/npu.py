# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

import anyop
from anyop.cli import making
from anyop.npu import environments, operators


@click.group("npu")
def command() -> None:
    """Run torch_npu without CANN and without an NPU."""


@command.command("install")
@making.arguments("torch_npu", environments.SUPPORTED, environments.DEFAULT)
def install(folder: Path, version: str, index: str) -> None:
    """Make an environment with torch, torch_npu and this anyop.

    From packages, in a few minutes; kernels of torch's operators are compiled there, which takes a
    C++ compiler and half a minute. FOLDER becomes a virtual environment; one that was made before
    and fits is left as it is, with this anyop in it. Programs run on the virtual NPU there where
    the variable ANYOP_NPU is 1.
    """
    environment = environments.environment(folder, version)
    made = making.make(environment, f"torch_npu {environment.version}", index)
    if made:
        python = shlex.quote(str(environment.python))
        click.echo(f"{made} Try: ANYOP_NPU=1 {python} PROGRAM")


@command.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("program", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(program: Path, arguments: tuple[str, ...]) -> None:
    """Run PROGRAM and list the operators that it asks for beyond torch's own, and what is missing.

    In an environment of `anyop npu install`, by its own anyop. Calls of other processes and those
    that gradients make are not counted.
    """
    if environments.STARTUP not in sys.modules:
        raise click.ClickException(
            f"{sys.executable} has no virtual NPU. Try `anyop npu install FOLDER`, then "
            "FOLDER/bin/anyop npu explain."
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "asked.json"
        asked = "anyop.torch.virtual_device.asked"
        words = [sys.executable, "-m", asked, str(file), str(program), *arguments]
        env = {**os.environ, "ANYOP_NPU": os.environ.get("ANYOP_NPU") or "1"}
        status = subprocess.run(words, env=env, check=False).returncode
        if not file.exists():
            raise click.ClickException(f"{program} was ended by {status}, and nothing was noted.")
        notes = json.loads(file.read_text())
    show(notes)
    raise SystemExit(status)


def show(notes: dict[str, Any]) -> None:
    calls, missing = notes["calls"], notes["missing"]
    names = {*calls, *missing}
    width = max(map(len, names), default=0)
    click.echo("operators beyond torch's own:" if names else "torch's own operators alone")
    for name in sorted(names, key=lambda n: (n not in missing, n)):
        told = f"missing: {missing[name]}" if name in missing else "there"
        click.echo(f"  {name:<{width}}  {calls.get(name, 0):>6}  {told}")
    if notes["ended"]:
        click.echo(f"the program stopped: {notes['ended']}")


@command.command("operators")
@click.argument("words", nargs=-1)
def list_operators(words: tuple[str, ...]) -> None:
    """List the operators of aclnn that there are, and what computes each.

    WORDS choose among them: names that contain one of them. A whole name shows how it is computed.
    """
    found = operators.operators()
    chosen = [n for n in found if not words or any(w.lower() in n.lower() for w in words)]
    if not chosen:
        raise anyop.InvalidArgument(
            f"anyop.npu: there is no operator of aclnn whose name contains {' or '.join(words)}, "
            f"among {len(found)} of them. Try `anyop npu operators` without words."
        )
    width = max(map(len, chosen))
    for name in chosen:
        click.echo(f"{name:{width}}  {operators.computed_by(name)}")
    for name in chosen:
        if name in words:
            click.echo(f"\n{name}\n{found[name].rstrip()}")
