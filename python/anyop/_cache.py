# SPDX-License-Identifier: Apache-2.0
"""The folder of the libraries and programs that anyop compiles on this machine. Their code runs
with the user's rights, so it is loaded only from where nobody else can have put it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from anyop import _anyop
from anyop._compiler import CannotBuildError

# A compiler that runs longer is ended; so long a process waits for the build of another one.
LONGEST_BUILD_S = 900.0
_PRIVATE = 0o700  # whatever the umask: 0 would let everybody write
# "NAME.x7r.tmp", and "NAME.4711.tmp.so" as older versions had it.
_SCRATCH = re.compile(r"(.+)\.[^.]+\.tmp(?:\.\w+)?")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def built(file: str, cache: str, build: Callable[[Folder, Path], Path]) -> Path:
    """The library or program of this name, built now if it is not there.

    cache: the folder, "" for the one that is usual. build: makes it in a folder that is
    removed afterwards, and returns its file; only one process at a time is asked to. Raises
    CannotBuildError.
    """
    name, reasons = file.removesuffix(".so"), []
    for path in folders(cache):
        try:
            with Folder(path) as folder, folder.locked(name):
                found = folder.find(file)
                if found is None:
                    with folder.scratch(name) as scratch:
                        found = folder.put(build(folder, scratch), file)
                return found
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
    raise CannotBuildError(f"no cache folder can be written ({'; '.join(reasons)})")


def cache_folder() -> str:
    """The folder that ANYOP_CACHE names; "" for the one that is usual."""
    return str(next(row[4] for row in _anyop.environment() if row[0] == "ANYOP_CACHE"))


def folders(cache: str) -> Iterator[Path]:
    """Where to build, best first. The second is for a user whose home cannot be written to."""
    user = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home
        yield Path(cache) if cache else Path(user or Path.home() / ".cache") / "anyop"
    yield Path(tempfile.gettempdir()) / f"anyop-{os.geteuid()}"


class Folder:
    """A folder that this user alone may write to, made if need be.

    path: without symbolic links, since somebody could turn a link elsewhere between two uses. For
    the same reason files are opened, renamed and removed by the folder's descriptor.
    """

    def __init__(self, path: Path) -> None:
        make(path.absolute())
        self.path = Path(os.path.realpath(path, strict=True))
        self._at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _is_ours(os.fstat(self._at)):
                raise PermissionError(errno.EPERM, "others may write to it")
            _check_above(self.path)
        except BaseException:
            os.close(self._at)
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._at)

    def find(self, name: str) -> Path | None:
        """A file, if there is one that only this user can have written. Any other is removed."""
        try:
            # O_NONBLOCK: opening a FIFO in the file's place would wait for somebody who writes.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=self._at)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.ELOOP:  # how O_NOFOLLOW refuses a symbolic link
                raise
        else:
            try:
                state = os.fstat(file)
            finally:
                os.close(file)
            if stat.S_ISREG(state.st_mode) and _is_ours(state):
                return self.path / name
        os.unlink(name, dir_fd=self._at)
        return None

    def put(self, made: Path, name: str) -> Path:
        """Moves a finished file into the folder under this name."""
        with made.open("rb") as file:
            # On the disk before it has its name: no crash of the machine leaves half a library.
            os.fchmod(file.fileno(), _PRIVATE)
            os.fsync(file.fileno())
        os.rename(made, name, dst_dir_fd=self._at)
        return self.path / name

    @contextlib.contextmanager
    def locked(self, name: str, timeout_s: float = LONGEST_BUILD_S) -> Iterator[None]:
        """Holds the lock of a name. The system lets go of it when its holder ends, however it does,
        so that a killed build locks nobody out.
        """
        lock = self._lock(name)
        try:
            end = time.monotonic() + timeout_s
            while not _is_taken(lock):  # asked again and again, as flock() has no time limit
                if time.monotonic() >= end:
                    raise CannotBuildError(
                        f"another process has held {self.path / name}.lock for {timeout_s:g} s. "
                        "Try ending it"
                    )
                time.sleep(0.02)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A folder to build in, for the holder of this name's lock. What killed builds left is
        removed.
        """
        for left in self.path.iterdir():
            found = _SCRATCH.fullmatch(left.name)
            # A lock that nobody holds, or this process, says that the build of it has ended.
            if found and (found[1] == name or self._is_free(found[1])):
                _remove(left)
        made = Path(tempfile.mkdtemp(prefix=f"{name}.", suffix=".tmp", dir=self.path))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _lock(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(f"{name}.lock", flags, 0o600, dir_fd=self._at)

    def _is_free(self, name: str) -> bool:
        """Whether nobody builds a library of this name."""
        lock = self._lock(name)
        try:
            return _is_taken(lock)
        finally:
            os.close(lock)


def make(folder: Path) -> None:
    """The folder and those above it that are not there, for this user alone."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=_PRIVATE, exist_ok=True)


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & _OTHERS_WRITE


def _check_above(path: Path) -> None:
    """Refuses a path with a folder that others may write to or own: whoever may rename a folder
    above may put another one in its place.
    """
    trusted = {os.geteuid(), Path("/").stat().st_uid}
    for folder in path.parents:
        state = folder.stat()
        # With the sticky bit, as /tmp has it, others cannot rename what is not theirs.
        is_shared = state.st_mode & _OTHERS_WRITE and not state.st_mode & stat.S_ISVTX
        if is_shared or state.st_uid not in trusted:
            raise PermissionError(errno.EPERM, f"others may write to {folder}, which holds it")


def _is_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(left: Path) -> None:
    if left.is_dir() and not left.is_symlink():
        shutil.rmtree(left, ignore_errors=True)
    else:
        left.unlink(missing_ok=True)
