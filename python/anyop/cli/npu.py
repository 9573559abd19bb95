# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import click

from anyop.cli import making
from anyop.npu import environments


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
        click.echo(f"{made} Try: ANYOP_NPU=1 {environment.python} PROGRAM")
