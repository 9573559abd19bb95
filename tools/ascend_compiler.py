# SPDX-License-Identifier: Apache-2.0
"""Whether a program can be the vendor's compiler of AscendC: `python ascend_compiler.py PATH`. If
it cannot, the reason is printed, and the exit status is 1.

Needs only Python's standard library, as the programs of the build beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_TRY = (
    "Try the path of bisheng, which is in PATH once set_env.sh of the vendor's toolkit is sourced. "
    "Without ANYOP_ASCEND_COMPILER, kernels are built for this machine alone, which needs no "
    "toolkit."
)
_TIMEOUT_S = 60


def found(given: str) -> str:
    """The whole path of a program, which may be given by its name."""
    return str(Path(shutil.which(given) or given).absolute())


def refused(given: str) -> str:
    """Why it is none, and what to do; "" for what may be one."""
    path = Path(found(given))
    what = f"ANYOP_ASCEND_COMPILER is {given}, "
    if not path.exists():
        return f"{what}but there is no such file. {_TRY}"
    if path.is_dir() or not os.access(path, os.X_OK):
        kind = "a folder" if path.is_dir() else "not executable"
        return f"{what}which is {kind}, but must be a program. {_TRY}"
    if said(str(path), "--version").startswith("anyop:"):
        return (
            f"{what}which `anyop ascend home` has made and which compiles for this machine, but "
            f"chips need the vendor's. {_TRY}"
        )
    # Of a language that they do not know, GCC and clang say that it is not recognized.
    if "not recognized" in said(str(path), "-x", "asc", "-E", os.devnull):
        return f"{what}which does not know AscendC, as GCC and clang do not. {_TRY}"
    return ""


def said(*command: str) -> str:
    """Both streams; an OSError's text where it cannot be started."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False,
            timeout=_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr


if __name__ == "__main__":
    why = refused(sys.argv[1])
    if why:
        sys.exit(why)
