# SPDX-License-Identifier: Apache-2.0
"""Compiles files of kernels, with checks or fast, into the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyop import _anyop, _cache, _compiler
from anyop._cache import Folder
from anyop._packages import data_root
from anyop.ascend.refused import RefusedError
from anyop.ascend.source import Source

# The checked build is compiled at each change; the fast one is what is timed and called.
_OPTIMIZE = {
    True: ("-O1", "-g1", "-DANYOP_ASCEND_CHECKED=1"),
    False: ("-O3", "-DANYOP_ASCEND_CHECKED=0"),
}
_FLAGS = ("-march=native", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_TIMEOUT_S = 600
_DEFINE = re.compile(r"[A-Za-z_]\w*(\([^()]*\))?(=.*)?", re.DOTALL)


@dataclass(frozen=True)
class Settings:
    """How a file is compiled. includes: headers that the vendor's build includes first, such as
    tiling structs; folders: searched for headers; defines: NAME or NAME=VALUE.
    """

    includes: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for define in self.defines:
            if not _DEFINE.fullmatch(define):
                raise _anyop.InvalidArgument(
                    f"'{define}' defines nothing. Try NAME or NAME=VALUE, such as DTYPE_X=half."
                )


def include_folder() -> Path:
    """Where kernel_operator.h lies; in stubs below it, headers that kernels include beside it."""
    return data_root() / "ascend" / "include"


def runtime_library() -> Path:
    """The library that kernels run on."""
    file = Path(_anyop.__file__).parent / "libanyop_ascend.so"
    if not file.exists():
        raise _anyop.NotAvailable(f"{file} is missing. Try reinstalling anyop.")
    return file


def library(source: Source, kernels: Sequence[str], checked: bool, settings: Settings) -> Path:
    """The compiled file, from the cache if nothing that it is made of has changed.

    Raises RefusedError for what the compiler refuses, NotAvailable without a compiler.
    """
    unit = source.unit(list(kernels), settings.includes)
    # The headers of operators are in C++20.
    standard = "-std=gnu++20" if source.is_of_operator(settings.folders) else "-std=gnu++17"
    return _compiled(source, unit, [standard, *_FLAGS, *_OPTIMIZE[checked]], settings)


def find_kernels(source: Source, settings: Settings, named: Collection[str]) -> None:
    """Adds the kernels that macros and included files make, where there may be some: the text has
    such a macro, or shows none of what is named. Takes away those that #if and its like leave out.
    What the preprocessor refuses is told later, by the compiler.
    """
    shown = {kernel.name for kernel in source.declared}
    are_shown = shown and shown.issuperset(name.partition("<")[0] for name in named)
    others = not are_shown or source.makes_kernels()
    if not others and not source.has_conditions():
        return
    with contextlib.suppress(_compiler.CannotBuildError, _compiler.SourceError):
        command = [_compiler.find_compiler(), "-std=gnu++17", *_search(source, settings)]
        text = _preprocessed(command, source.traced()).decode(errors="replace")
        source.add(text, others)


def host_library(path: Path, settings: Settings) -> Path:
    """An op_host file, with its tiling functions, compiled as `library` does."""
    source = Source(path)
    return _compiled(source, source.host_unit(), ["-std=gnu++17", *_FLAGS, "-O1"], settings)


def _compiled(source: Source, unit: str, flags: list[str], settings: Settings) -> Path:
    try:
        compiler = _compiler.find_compiler()
        command = [compiler, *flags, *_search(source, settings)]
        digest = _digest(_preprocessed(command, unit), command)

        def build(folder: Folder, scratch: Path) -> Path:
            file, made = scratch / "unit.cc", scratch / "made.so"
            file.write_text(unit, encoding="utf-8")
            runtime = runtime_library()
            link = [str(runtime), f"-Wl,-rpath,{runtime.parent}"]
            _compiler.run([*command, str(file), *link, "-o", str(made)], _TIMEOUT_S)
            return made

        name = re.sub(r"\W", "_", source.path.stem)
        return _cache.built(f"ascend_{name}_{digest}.so", _cache.cache_folder(), build)
    except _compiler.SourceError as error:
        raise RefusedError(source, error.output) from None
    except _compiler.CannotBuildError as error:
        raise _anyop.NotAvailable(f"{source.path.name}: {error}.") from None


def _search(source: Source, settings: Settings) -> list[str]:
    folders = [include_folder(), include_folder() / "stubs", source.path.parent, *settings.folders]
    if source.is_of_operator(settings.folders):
        folders.append(data_root() / "include")
    return [*(f"-I{folder}" for folder in folders), *(f"-D{define}" for define in settings.defines)]


def _preprocessed(command: list[str], unit: str) -> bytes:
    """The text after all includes: what decides whether a compiled file is still right."""
    without = [c for c in command if c != "-shared"]
    done = subprocess.run(
        [*without, "-E", "-x", "c++", "-"], input=unit.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise _compiler.SourceError(command[0], done.stderr.decode(errors="replace"))
    return done.stdout


def _digest(text: bytes, command: list[str]) -> str:
    digest = hashlib.sha256(text)
    state = Path(command[0]).resolve().stat()
    runtime = runtime_library().stat()
    digest.update(
        f"{state.st_size} {state.st_mtime_ns} {runtime.st_size} {runtime.st_mtime_ns}".encode()
    )
    digest.update("\0".join([*command, str(runtime_library())]).encode("utf-8", "surrogateescape"))
    digest.update(_processor())  # which -march=native stands for
    return digest.hexdigest()[:16]


def _processor() -> bytes:
    lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")
