# SPDX-License-Identifier: Apache-2.0
"""Builds what depends on the machine, once per user and when it is first needed, from sources that
the package carries: a host's adapter for the framework that is installed, and anyop-optest.
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
_FLAGS = ("-std=c++20", "-DNDEBUG", "-w")
_OF_LIBRARIES = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True)
class Product:
    """What is built: a library, or a program; it links libanyop.

    name: of its files. version: of what it is for; another version needs another build. what and
    lasts: what it is and how long a build takes, for the message that announces it. sources: the
    C++ files, compiled as one. includes: folders of headers that belong to them; when one changes,
    it is built again. flags: what else the compiler is told, such as a framework's own folders and
    libraries (-isystem, -L, -l).
    """

    name: str
    version: str
    what: str
    sources: Sequence[Path]
    includes: Sequence[Path]
    flags: Sequence[str]
    lasts: str
    is_program: bool = False


def prebuilt(name: str, version: str) -> Path:
    """Where the package's own adapter for a version of the framework is, if it has one."""
    return PACKAGE / f"{name}-{version}.so"


def carried(folder: str) -> Path:
    """A folder of sources: the installed package's, or a checkout's."""
    resolved = Path(__file__).resolve().parents[1]
    for root in (resolved, resolved.parents[1]):
        if (root / folder).is_dir():
            return root / folder
    raise CannotBuildError(f"this installation does not carry the sources in {folder}")


def build(product: Product, cache: str) -> Path:
    """The product in the user's cache, built now if it is not there. cache: its folder, "" for the
    one that is usual. Raises CannotBuildError.
    """
    compiler = find_compiler()
    command = _command(compiler, product)
    name = f"{product.name}-{product.version}-{_key(compiler, command, product)}"

    def make(folder: Folder, scratch: Path) -> Path:
        failure = folder.find(f"{name}.failed")
        if failure:
            raise CannotBuildError(f"{failure.read_text()} (remove {failure} to try again)")
        said = f"anyop: building {product.what}, once, {product.lasts} ..."
        print(said, file=sys.stderr, flush=True)
        unity, made = scratch / f"{name}.cc", scratch / "made"
        unity.write_text("".join(f'#include "{source}"\n' for source in product.sources))
        # Libraries behind the source: the linker takes of a library what it lacks by then.
        libraries = [word for word in command if word.startswith("-l")]
        others = [word for word in command if not word.startswith("-l")]
        try:
            _compiler.run([*others, str(unity), "-o", str(made), *libraries], LONGEST_BUILD_S)
        except _compiler.SourceError as error:
            # Remembered, as the compiler would refuse the same source each time. What the state of
            # the machine was to blame for is another error, and is tried again.
            note = scratch / "failed"
            note.write_text(str(error))
            folder.put(note, f"{name}.failed")
            raise
        return made

    return _cache.built(f"{name}{'' if product.is_program else '.so'}", cache, make)


def _exports() -> Path:
    """Which symbols an adapter shows, for the linker. Raises CannotBuildError."""
    return carried("cmake/exports") / "adapter.map"


def _command(compiler: str, product: Product) -> list[str]:
    kind = [*_OF_LIBRARIES, f"-Wl,--version-script={_exports()}"]
    if product.is_program:
        kind = [f"-Wl,-rpath,{PACKAGE}"]
    includes = [f"-I{folder}" for folder in product.includes]
    return [compiler, *_FLAGS, *kind, *includes, *product.flags, f"-L{PACKAGE}", "-lanyop"]


def _key(compiler: str, command: Sequence[str], product: Product) -> str:
    """Changes with everything of which the product is made: compiler, options, sources, headers."""
    binary = Path(compiler).resolve().stat()  # asking it for its version takes 10 ms
    digest = hashlib.sha256(f"{binary.st_size} {binary.st_mtime_ns}".encode())
    digest.update("\0".join(command).encode())
    files = [*product.sources, _exports()]
    for folder in [*product.includes, *sorted({source.parent for source in product.sources})]:
        files += sorted(folder.rglob("*.h"))
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]
