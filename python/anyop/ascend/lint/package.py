# SPDX-License-Identifier: Apache-2.0
"""What a package, or some files, say about operators."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from anyop import _anyop
from anyop.ascend.lint import cpp, python, schema
from anyop.ascend.lint.functions import Registered
from anyop.ascend.lint.schema import Place, Schema

CPP = (".cpp", ".cc", ".cxx", ".cu", ".h", ".hpp", ".asc", ".cce")
_SKIPPED = ("build", "dist", "__pycache__", "node_modules")


@dataclass
class Package:
    """wrong: schemas that cannot be read, each with what is wrong; unknown: operators that have a
    schema which no text shows (a custom_op whose types say it); unread: files that were left out,
    each with the reason.
    """

    schemas: list[Schema] = field(default_factory=list)
    registered: list[Registered] = field(default_factory=list)
    wrong: list[tuple[Place, str, str]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    unread: list[tuple[Place, str]] = field(default_factory=list)
    files: int = 0


def read(given: Iterable[str]) -> Package:
    """Reads files, folders and packages by name. Raises InvalidArgument for what is none."""
    files = list(dict.fromkeys(f for name in given for f in _files(name)))
    if not files:
        raise _anyop.InvalidArgument(
            f"There is no file to compare: those of Python (.py) and C++ ({', '.join(CPP)}) "
            "are read."
        )
    package = Package(files=len(files))
    modules, texts = [], []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix == ".py":
                modules.append(python.Module(str(file), text))
            else:
                texts.append(cpp.Text(str(file), text))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
            package.unread.append(_unread(file, error))
    wrappers = {name: at for module in modules for name, at in module.wrappers().items()}
    for reader in modules:
        _add_schemas(package, reader.schemas())
        package.registered += reader.registered(wrappers)
    for source in texts:
        _add_schemas(package, cpp.schemas(source))
        package.registered += cpp.implementations(source, texts)
    return package


def _unread(file: Path, error: Exception) -> tuple[Place, str]:
    if isinstance(error, OSError):
        return Place(str(file), 0), f"{file} cannot be read: {error.strerror}"
    line = getattr(error, "lineno", None) or 1
    what = getattr(error, "msg", None) or str(error) or type(error).__name__
    return Place(str(file), line), f"it is no Python, so that nothing of it was compared: {what}"


def _add_schemas(package: Package, found: Iterable[tuple[str, str, Place]]) -> None:
    for space, text, place in found:
        if not text:
            continue  # m.def(a name that is made elsewhere)
        try:
            parsed = schema.parse(text, space, place)
            why = schema.refused(text) if parsed else ""
        except ValueError as error:
            parsed, why = None, str(error)
        if why:
            package.wrong.append((place, text, why))
        elif parsed is None:
            package.unknown.add(f"{space}::{text.strip().rpartition('::')[2].partition('.')[0]}")
        else:
            package.schemas.append(parsed)


def _files(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from _below(path)
    else:
        yield from _below(_installed(name))


def _installed(name: str) -> Path:
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if folders:
        return Path(folders[0])
    if spec and spec.origin and spec.origin.endswith(".py"):
        return Path(spec.origin)
    raise _anyop.InvalidArgument(f"{name} is no file, no folder and no package that is installed.")


def _below(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, names, files in os.walk(root):
        kept = (n for n in names if n not in _SKIPPED and not n.startswith("."))
        names[:] = sorted(n for n in kept if not n.endswith(".egg-info"))
        yield from (Path(folder, n) for n in sorted(files) if n.endswith((".py", *CPP)))
