# SPDX-License-Identifier: Apache-2.0
"""Running somebody's program with other environment variables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click


def launch(command: tuple[str, ...], settings: dict[str, str], quiet_output: bool = False) -> int:
    """Runs the command and waits for it; Ctrl-C is its own. Returns its exit status.

    quiet_output: what it prints goes to standard error.
    """
    if not shutil.which(command[0]):
        hint = ""
        if command[0].endswith(".py") and Path(command[0]).exists():
            hint = f" Try: -- python {' '.join(command)}"
        raise click.ClickException(f"there is no program '{command[0]}'.{hint}")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = subprocess.run(
            command, env={**os.environ, **settings}, check=False,
            stdout=sys.stderr if quiet_output else None,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ).returncode  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    if status < 0:
        name = signal.Signals(-status).name
        click.secho(f"The program was ended by {name}.", fg="red", err=True)
        return 128 - status
    return status


def new_folder(path: Path) -> Path:
    """The folder, made if need be, as an absolute path."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written to: {error.strerror}.") from None
    return path.absolute()
