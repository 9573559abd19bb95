# SPDX-License-Identifier: Apache-2.0
"""Operators from a text in C++: `anyop.inline`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from anyop import _anyop, _cache, _compiler
from anyop._cache import Folder
from anyop._packages import data_root, tool
from anyop._source_check import check_sources

# As packages are built (cmake/anyop.cmake), for the processor of this machine's family.
FLAGS = (
    "-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-Wall", "-Wextra", '-DANYOP_NEEDS=""',
    "-DANYOP_ISA=portable",
)  # fmt: skip
_TIMEOUT_S = 600


def library_of(source: str, flags: Sequence[str]) -> Path:
    """The library of a source in the user's cache, built now if it is not there."""
    include = data_root() / "include"
    if '#include "anyop/op.h"' not in source:
        source = f'#include "anyop/op.h"\n{source}'
    try:
        compiler = _compiler.find_compiler()
    except _compiler.CannotBuildError as error:
        raise _anyop.NotAvailable(f"inline: {error}.") from None
    command = [compiler, *FLAGS, *flags, f"-I{include}"]
    name = f"inline_{_digest(source, command, include)}"

    def build(folder: Folder, scratch: Path) -> Path:
        file = scratch / "source.cc"
        file.write_text(source, encoding="utf-8")
        kept = folder.path / f"{name}.cc"  # where a debugger looks
        made = _build(file, name, [*command, f"-fdebug-prefix-map={file}={kept}"])
        folder.put(file, kept.name)
        return made

    try:
        return _cache.built(f"{name}.so", _cache.cache_folder(), build)
    except _compiler.CannotBuildError as error:
        raise _anyop.NotAvailable(f"inline: {error}.") from None


def _digest(source: str, command: list[str], include: Path) -> str:
    """Changes with the compiler, the options, the source and every header of anyop."""
    binary = Path(command[0]).resolve().stat()
    digest = hashlib.sha256(f"{binary.st_size} {binary.st_mtime_ns}".encode())
    digest.update("\0".join([*command, source]).encode("utf-8", "surrogateescape"))
    for header in sorted(include.rglob("*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:12]


def _build(file: Path, name: str, command: list[str]) -> Path:
    """The library of a source file, beside it."""
    scratch = file.parent
    findings = check_sources([file])
    if findings:
        _refuse("the source is wrong", "\n".join(map(str, findings)), scratch)
    list_ops = tool("list_ops")
    operators, references = list_ops.find(scratch, "Op"), list_ops.find(scratch, "Reference")
    if not operators:
        raise _anyop.InvalidArgument(
            "inline: the source holds no operator, because no line of it begins with "
            "`extern constinit const Op NAME{`."
        )
    table, made = scratch / "table.cc", scratch / "made.so"
    table.write_text(list_ops.table(name, "0", operators, references), encoding="utf-8")
    try:
        _compiler.run([*command, str(file), str(table), "-o", str(made)], _TIMEOUT_S)
    except _compiler.SourceError as error:
        _refuse(f"{command[0]} refuses the source", error.output.strip(), scratch)
    return made


def _refuse(what: str, why: str, scratch: Path) -> NoReturn:
    """Names files without the scratch folder, which is gone when somebody reads the message."""
    raise _anyop.InvalidArgument(f"inline: {what}:\n" + why.replace(f"{scratch}/", "")) from None
