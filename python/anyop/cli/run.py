# SPDX-License-Identifier: Apache-2.0
"""Where the program anyop-run is; its command becomes that program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyop


def program() -> Path:
    """The executable of this installation. Raises NotAvailable."""
    path = Path(anyop.__file__).parent / "bin" / "anyop-run"
    if not path.exists():
        raise anyop.NotAvailable(f"anyop-run: {path} is missing. Try reinstalling anyop.")
    return path


def main() -> None:
    """The entry point: nothing of Python is left in the process."""
    path = program()
    os.execv(path, [str(path), *sys.argv[1:]])
