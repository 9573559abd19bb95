# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import click

import anyop
from anyop._packages import data_root


@click.command("config")
@click.option("--cflags", is_flag=True, help="What the compiler needs.")
@click.option("--libs", is_flag=True, help="What the linker needs.")
@click.option("--cmakedir", is_flag=True, help="The folder for CMake's anyop_DIR.")
@click.option("--includedir", is_flag=True, help="The folder of the headers.")
@click.option("--ascenddir", is_flag=True, help="The folder of the AscendC dialect.")
def command(cflags: bool, libs: bool, cmakedir: bool, includedir: bool, ascenddir: bool) -> None:
    """Print how a C++ program is built with anyop."""
    libraries = Path(anyop.__file__).absolute().parent  # where libanyop lies, links not followed
    answers = {
        "--cflags": (cflags, f"-std=c++20 -I{data_root() / 'include'}"),
        "--libs": (libs, f"-L{libraries} -Wl,-rpath,{libraries} -lanyop"),
        "--cmakedir": (cmakedir, str(data_root() / "cmake")),
        "--includedir": (includedir, str(data_root() / "include")),
        "--ascenddir": (ascenddir, str(data_root() / "ascend")),
    }
    wanted = [text for is_wanted, text in answers.values() if is_wanted]
    if not wanted:
        for option, (_, text) in answers.items():
            click.echo(f"{option:<13}{text}")
        return
    click.echo(" ".join(wanted))
