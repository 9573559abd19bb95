# SPDX-License-Identifier: Apache-2.0
"""Builds the adapter for the torch that is installed, once per user, from the sources that the
package carries.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGE = Path(__file__).absolute().parents[2]
_TIMEOUT_S = 900


class CannotBuildError(Exception):
    """Why there is no adapter, as a sentence without its full stop."""


def prebuilt(torch_version: str) -> Path:
    """Where the package's own adapter for this torch is, if it has one."""
    return PACKAGE / f"torch_adapter-{torch_version}.so"


def build(torch_folder: Path, torch_version: str, new_abi: bool, cache: str) -> Path:
    """The adapter in the user's cache, built now if it is not there."""
    compiler = _compiler()
    command = _command(compiler, torch_folder, new_abi)
    name = f"torch_adapter-{torch_version}-{_key(compiler, command)}"
    reasons = []
    for folder in _folders(cache):
        try:
            _prepare(folder)
            with _locked(folder / f"{name}.lock"):
                return _build_in(folder, name, command)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
    raise CannotBuildError(f"no cache folder can be written ({'; '.join(reasons)})")


def _build_in(folder: Path, name: str, command: list[str]) -> Path:
    """Under the lock: another process may have built it meanwhile, or failed to."""
    file, failure = folder / f"{name}.so", folder / f"{name}.failed"
    if file.exists():
        return file
    if failure.exists():
        raise CannotBuildError(f"{failure.read_text()} (remove {failure} to try again)")
    for left in folder.glob("torch_adapter-*.tmp*"):  # of a process that was killed
        if left.name.startswith(name) or time.time() - left.stat().st_mtime > _TIMEOUT_S:
            left.unlink(missing_ok=True)
    version = name.split("-")[1]
    print(
        f"anyop: building its adapter for torch {version}, once, about half a minute ...",
        file=sys.stderr,
        flush=True,
    )
    made = folder / f"{name}.{os.getpid()}.tmp.so"
    unity = made.with_suffix(".cc")
    try:
        unity.write_text("".join(f'#include "{source}"\n' for source in _sources()))
        _run([*command, str(unity), "-o", str(made)], failure)
        with made.open("rb") as built:
            os.fsync(built.fileno())
        made.replace(file)
    finally:
        unity.unlink(missing_ok=True)
        made.unlink(missing_ok=True)
    return file


def _run(command: list[str], failure: Path) -> None:
    # The libraries come after the source that needs them.
    libraries = [word for word in command if word.startswith("-l")]
    others = [word for word in command if not word.startswith("-l")]
    try:
        done = subprocess.run(
            [*others, *libraries], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotBuildError(f"the compiler took more than {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        reason = f"{command[0]} failed: {(lines or done.stderr.splitlines() or ['?'])[0].strip()}"
        if done.returncode > 0:  # a compiler that was killed may succeed the next time
            failure.write_text(reason)
        raise CannotBuildError(reason)


def _compiler() -> str:
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found:
            return found
    what = f"CXX is {wanted}, which is not there" if wanted else "there is no C++ compiler"
    raise CannotBuildError(f"{what} to build the adapter with. Try installing g++")


@functools.cache
def _root() -> Path:
    """The folder that has bindings/, src/ and include/: the installed package, or a checkout."""
    resolved = Path(__file__).resolve().parents[2]
    for root in (resolved, resolved.parents[1]):
        if (root / "bindings" / "torch").is_dir():
            return root
    raise CannotBuildError("this installation does not carry the adapter's sources")


def _includes() -> list[Path]:
    return [_root() / "include", _root() / "src"]


def _sources() -> list[Path]:
    return sorted((_root() / "bindings" / "torch").glob("*.cc"))


def _command(compiler: str, torch_folder: Path, new_abi: bool) -> list[str]:
    torch_includes = torch_folder / "include"
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi)}")
    flags += [f"-I{folder}" for folder in _includes()]
    flags += ["-isystem", str(torch_includes)]
    flags += ["-isystem", str(torch_includes / "torch" / "csrc" / "api" / "include")]
    flags += [f"-L{torch_folder / 'lib'}", f"-L{PACKAGE}", "-ltorch_cpu", "-lc10", "-lanyop"]
    return [compiler, *flags]


def _key(compiler: str, command: Sequence[str]) -> str:
    """Of everything that the adapter is made of."""
    binary = Path(compiler).resolve().stat()  # asking it for its version takes 10 ms
    digest = hashlib.sha256(f"{binary.st_size} {binary.st_mtime_ns}".encode())
    digest.update("\0".join(command).encode())
    files = _sources()
    for folder in [*_includes(), _root() / "bindings" / "torch"]:
        files += sorted(folder.rglob("*.h"))
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _folders(cache: str) -> Iterator[Path]:
    """Where to build, best first."""
    user = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home
        yield Path(cache) if cache else Path(user or Path.home() / ".cache") / "anyop"
    yield Path(tempfile.gettempdir()) / f"anyop-{os.getuid()}"


def _prepare(folder: Path) -> None:
    """Makes the folder; what others may write to is not loaded from."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(1, "others may write to it")


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """The system lets go of the lock when its holder ends, however it ends."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
