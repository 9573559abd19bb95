# SPDX-License-Identifier: Apache-2.0
"""Packages of operators: where their libraries are, and what anyop's own carries for building."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from anyop import _anyop

_HERE = Path(__file__).resolve().parent
BUILT = Path("build", "anyop", "lib")  # in a package's source tree; what `anyop build` makes


def data_root() -> Path:
    """The folder that has include/, cmake/ and tools/: the installed package, or a checkout."""
    for root in (_HERE, _HERE.parents[1]):
        if (root / "include" / "anyop" / "op.h").exists():
            return root
    raise _anyop.NotAvailable(
        f"{_HERE}/include/anyop/op.h is missing: this installation of anyop is incomplete. "
        "Try reinstalling it."
    )


def tool(name: str) -> ModuleType:
    """A module of the folder tools, whose files builds run as programs."""
    full = f"anyop._tools_{name}"
    if full not in sys.modules:
        folder = data_root() / "tools"
        spec = importlib.util.spec_from_file_location(full, folder / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        sys.path.insert(0, str(folder))  # as a program's own folder: they import each other
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(folder))
    return sys.modules[full]


def device_library() -> Path:
    """The library of the virtual NPU (docs/ascend.md)."""
    library = Path(_anyop.__file__).parent / "anyop_ascend_device.so"
    if not library.exists():
        raise _anyop.NotAvailable(f"{library} is missing. Try reinstalling anyop.")
    return library


def source_root(folder: Path) -> Path | None:
    """The source tree that a package's folder (src/NAME or NAME) belongs to, if it is in one."""
    for root in (folder.parent.parent, folder.parent):
        if (root / "pyproject.toml").exists() and (root / "CMakeLists.txt").exists():
            return root
    return None


def library_file(name: str, folders: Iterable[str]) -> Path:
    """The newest library of a package: installed with it, or built in its source tree."""
    found: list[Path] = []
    for folder in map(Path, folders):
        root = source_root(folder)
        found.append(folder / f"{name}.so")
        if root:  # imported from its source tree, it may also be installed
            found.append(root / BUILT / f"{name}.so")
            found += [Path(path, name, f"{name}.so") for path in sys.path]
    there = [file for file in found if file.exists()]
    if not there:
        places = " or ".join(str(file.parent) for file in found[:2]) or "no folder"
        raise _anyop.NotAvailable(
            f"{name}: its library {name}.so is not in {places}. "
            "Try `anyop build` in the package's source tree."
        )
    return max(there, key=lambda file: file.stat().st_mtime_ns)
