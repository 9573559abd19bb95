# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine, and what it says."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


class CannotBuildError(Exception):
    """Why nothing was built, as a sentence without its full stop."""


class SourceError(CannotBuildError):
    """The compiler refuses the source, and will do so again. `output`: what it printed."""

    def __init__(self, compiler: str, output: str) -> None:
        lines = [line for line in output.splitlines() if "error" in line]
        first = (lines or output.splitlines() or ["?"])[0].strip()
        super().__init__(f"{compiler} failed: {first}")
        self.output = output


# Errors by which a compiler fails for the state of the machine; it may succeed the next time. Its
# exit status does not tell: the driver ends with 1, as for a wrong source, where a program that it
# started was killed. So what it prints is searched.
_DISK = (errno.ENOSPC, errno.EDQUOT)
_MACHINE = (
    *_DISK, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EROFS,
    errno.ESTALE, errno.EINTR, errno.ETXTBSY,
)  # fmt: skip
_MEMORY = re.compile(
    r"\bKilled\b|signal terminated program|(with|due to) signal|out of memory|memory exhausted"
    r"|internal compiler error"
)


def find_compiler() -> str:
    """The C++ compiler that CXX names, or one that is usual."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found:
            return found
    what = f"CXX is {wanted}, which is not there" if wanted else "there is no C++ compiler"
    raise CannotBuildError(f"{what} to build with. Try installing g++")


def run(command: Sequence[str], timeout_s: float) -> None:
    """Runs a compiler. Raises SourceError if the source is to blame, else CannotBuildError."""
    compiler = command[0]
    try:
        # LC_ALL: `_check_machine` searches for English words.
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotBuildError(f"the compiler took more than {timeout_s:g} s") from None
    except OSError as error:
        raise CannotBuildError(f"{compiler} cannot be run: {error.strerror}") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise CannotBuildError(f"{compiler} was ended by {name}, perhaps for lack of memory")
    if done.returncode:
        _check_machine(compiler, done.stderr)
        raise SourceError(compiler, done.stderr)
    # CXX may name a program that does nothing and succeeds, such as `true`.
    made = command[command.index("-o") + 1] if "-o" in command else ""
    if made and not Path(made).exists():
        raise CannotBuildError(
            f"{compiler} made no file, so it is no C++ compiler. Try another CXX"
        )


def _check_machine(compiler: str, output: str) -> None:
    for line in output.splitlines():
        found = next((n for n in _MACHINE if os.strerror(n) in line), None)
        if found in _DISK:
            raise CannotBuildError(f"the disk is full: {compiler} failed: {line.strip()}")
        if found is not None or _MEMORY.search(line):
            raise CannotBuildError(f"{compiler} failed: {line.strip()}")
