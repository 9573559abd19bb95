# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine, and the folder of what anyop builds with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


class CannotBuildError(Exception):
    """Why nothing was built, as a sentence without its full stop."""


def find_compiler() -> str:
    """The C++ compiler that CXX names, or one that is usual."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found:
            return found
    what = f"CXX is {wanted}, which is not there" if wanted else "there is no C++ compiler"
    raise CannotBuildError(f"{what} to build with. Try installing g++")


def folders(cache: str) -> Iterator[Path]:
    """Where to build, best first."""
    user = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home
        yield Path(cache) if cache else Path(user or Path.home() / ".cache") / "anyop"
    yield Path(tempfile.gettempdir()) / f"anyop-{os.getuid()}"


def prepare(folder: Path) -> None:
    """Makes the folder; what others may write to is not loaded from."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(1, "others may write to it")


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """The system lets go of the lock when its holder ends, however it ends."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
