# SPDX-License-Identifier: Apache-2.0
"""Operators from a text in C++: `anyop.inline`."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from anyop import _anyop, _compiler
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
    cache = str(next(row[4] for row in _anyop.environment() if row[0] == "ANYOP_CACHE"))
    reasons = []
    for folder in _compiler.folders(cache):
        try:
            _compiler.prepare(folder)
            with _compiler.locked(folder / f"{name}.lock"):
                return _build(folder / name, name, source, command)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
    raise _anyop.NotAvailable(f"inline: no cache folder can be written ({'; '.join(reasons)}).")


def _digest(source: str, command: list[str], include: Path) -> str:
    """Of everything that the library is made of."""
    binary = Path(command[0]).resolve().stat()
    digest = hashlib.sha256(f"{binary.st_size} {binary.st_mtime_ns}".encode())
    digest.update("\0".join([*command, source]).encode("utf-8", "surrogateescape"))
    for header in sorted(include.rglob("*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:12]


def _build(folder: Path, name: str, source: str, command: list[str]) -> Path:
    library = folder / f"{name}.so"
    if library.exists():
        return library
    folder.mkdir(exist_ok=True)
    file, table = folder / "source.cc", folder / "table.cc"
    file.write_text(source, encoding="utf-8")
    findings = check_sources([file])
    if findings:
        raise _anyop.InvalidArgument(
            "inline: the source is wrong:\n" + "\n".join(map(str, findings))
        )
    list_ops = tool("list_ops")
    operators, references = list_ops.find(folder, "Op"), list_ops.find(folder, "Reference")
    if not operators:
        raise _anyop.InvalidArgument(
            "inline: the source holds no operator, because no line of it begins with "
            "`extern constinit const Op NAME{`."
        )
    table.write_text(list_ops.table(name, "0", operators, references), encoding="utf-8")
    made = folder / f"{name}.{os.getpid()}.tmp.so"
    try:
        done = subprocess.run(
            [*command, str(file), str(table), "-o", str(made)],
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise _anyop.InvalidArgument(
                f"inline: {command[0]} refuses the source:\n{done.stderr.strip()}"
            )
        made.replace(library)
    except subprocess.TimeoutExpired:
        raise _anyop.NotAvailable(f"inline: {command[0]} took more than {_TIMEOUT_S} s.") from None
    finally:
        made.unlink(missing_ok=True)
    return library
