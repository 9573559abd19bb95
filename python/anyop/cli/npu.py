# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import click

import anyop
from anyop.cli import making
from anyop.npu import environments, operators


@click.group("npu")
def command() -> None:
    """Run torch_npu without CANN and without an NPU."""


@command.command("install")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--version", help=f"Of torch_npu: {', '.join(environments.SUPPORTED)} (default).")
@click.option(
    "--index",
    default="",
    metavar="URL",
    help=f"A further package index, as {environments.PYTORCH}, where torch has no CUDA in it.",
)
def install(folder: Path, version: str | None, index: str) -> None:
    """Make an environment with torch, torch_npu and this anyop.

    From packages, in a few minutes; kernels of torch's operators are compiled there, which takes a
    C++ compiler and half a minute. FOLDER becomes a virtual environment; one that was made before
    and fits is left as it is, with this anyop in it. Programs run on the virtual NPU there where
    the variable ANYOP_NPU is 1.
    """
    environment = environments.environment(folder, version or "")
    made = making.make(environment, f"torch_npu {environment.version}", index)
    if made:
        click.echo(f"{made} Try: ANYOP_NPU=1 {environment.python} PROGRAM")


@command.command("explain")
@click.argument("words", nargs=-1)
def explain(words: tuple[str, ...]) -> None:
    """List the operators of aclnn that there are, and what computes each.

    WORDS choose among them: names that contain one of them. A whole name shows how it is computed.
    """
    found = operators.operators()
    chosen = [n for n in found if not words or any(w.lower() in n.lower() for w in words)]
    if not chosen:
        raise anyop.InvalidArgument(
            f"anyop.npu: there is no operator of aclnn whose name contains {' or '.join(words)}, "
            f"among {len(found)} of them. Try `anyop npu explain` without words."
        )
    width = max(map(len, chosen))
    for name in chosen:
        click.echo(f"{name:{width}}  {operators.computed_by(name)}")
    for name in chosen:
        if name in words:
            click.echo(f"\n{name}\n{found[name].rstrip()}")
