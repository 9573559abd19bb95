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
@click.option("--ascendlib", is_flag=True, help="The library that its kernels run on.")
def command(**wanted: bool) -> None:
    """Print how a C++ program is built with anyop."""
    libraries = Path(anyop.__file__).absolute().parent  # where libanyop lies, links not followed
    answers = {
        "cflags": f"-std=c++20 -I{data_root() / 'include'}",
        "libs": f"-L{libraries} -Wl,-rpath,{libraries} -lanyop",
        "cmakedir": str(data_root() / "cmake"),
        "includedir": str(data_root() / "include"),
        "ascenddir": str(data_root() / "ascend"),
        "ascendlib": str(libraries / "libanyop_ascend.so"),
    }
    if any(wanted.values()):
        click.echo(" ".join(text for name, text in answers.items() if wanted[name]))
        return
    for name, text in answers.items():
        click.echo(f"--{name:<11}{text}")
