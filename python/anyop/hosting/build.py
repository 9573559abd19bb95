# SPDX-License-Identifier: Apache-2.0
"""Builds a host's adapter for the framework that is installed, once per user, from sources that the
package carries.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyop import _cache, _compiler
from anyop._cache import LONGEST_BUILD_S, Folder
from anyop._compiler import CannotBuildError, find_compiler

PACKAGE = Path(__file__).absolute().parents[1]  # where libanyop is, and adapters built with anyop
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w")


@dataclass(frozen=True)
class Adapter:
    """What an adapter is made of; it links libanyop.

    name: of its files, without a dash. framework, version: what it is for; another version needs
    another adapter. sources: the C++ files, compiled as one. includes: folders of headers that
    belong to them; when one changes, the adapter is built again. flags: what else the compiler is
    told, the framework's own folders and libraries (-isystem, -L, -l). lasts: how long a build
    takes, for the message that announces it.
    """

    name: str
    framework: str
    version: str
    sources: Sequence[Path]
    includes: Sequence[Path]
    flags: Sequence[str]
    lasts: str


def prebuilt(name: str, version: str) -> Path:
    """Where the package's own adapter for a version of the framework is, if it has one."""
    return PACKAGE / f"{name}-{version}.so"


def carried(folder: str) -> Path:
    """A folder of sources: the installed package's, or a checkout's."""
    resolved = Path(__file__).resolve().parents[1]
    for root in (resolved, resolved.parents[1]):
        if (root / folder).is_dir():
            return root / folder
    raise CannotBuildError("this installation does not carry the adapter's sources")


def build(adapter: Adapter, cache: str) -> Path:
    """The adapter in the user's cache, built now if it is not there. cache: its folder, "" for the
    one that is usual. Raises CannotBuildError.
    """
    compiler = find_compiler()
    command = _command(compiler, adapter)
    name = f"{adapter.name}-{adapter.version}-{_key(compiler, command, adapter)}"

    def make(folder: Folder, scratch: Path) -> Path:
        failure = folder.find(f"{name}.failed")
        if failure:
            raise CannotBuildError(f"{failure.read_text()} (remove {failure} to try again)")
        print(
            f"anyop: building its adapter for {adapter.framework} {adapter.version}, once, "
            f"{adapter.lasts} ...",
            file=sys.stderr,
            flush=True,
        )
        unity, made = scratch / f"{name}.cc", scratch / f"{name}.so"
        unity.write_text("".join(f'#include "{source}"\n' for source in adapter.sources))
        # The libraries come after the source that needs them.
        libraries = [word for word in command if word.startswith("-l")]
        others = [word for word in command if not word.startswith("-l")]
        try:
            _compiler.run([*others, str(unity), "-o", str(made), *libraries], LONGEST_BUILD_S)
        except _compiler.SourceError as error:
            note = scratch / "failed"
            note.write_text(str(error))
            folder.put(note, f"{name}.failed")
            raise
        return made

    return _cache.library(name, cache, make)


def _exports() -> Path:
    """Which symbols an adapter shows, for the linker. Raises CannotBuildError."""
    return carried("cmake/exports") / "adapter.map"


def _command(compiler: str, adapter: Adapter) -> list[str]:
    exports = f"-Wl,--version-script={_exports()}"
    includes = [f"-I{folder}" for folder in adapter.includes]
    return [compiler, *_FLAGS, exports, *includes, *adapter.flags, f"-L{PACKAGE}", "-lanyop"]


def _key(compiler: str, command: Sequence[str], adapter: Adapter) -> str:
    """Of everything that the adapter is made of."""
    binary = Path(compiler).resolve().stat()  # asking it for its version takes 10 ms
    digest = hashlib.sha256(f"{binary.st_size} {binary.st_mtime_ns}".encode())
    digest.update("\0".join(command).encode())
    files = [*adapter.sources, _exports()]
    for folder in [*adapter.includes, *sorted({source.parent for source in adapter.sources})]:
        files += sorted(folder.rglob("*.h"))
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]
