# SPDX-License-Identifier: Apache-2.0
"""A folder that stands in for the vendor's toolkit, so that packages build as they are."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from anyop import _anyop
from anyop._packages import data_root
from anyop.ascend import wrapper
from anyop.ascend.build import include_folder, runtime_library

# Libraries that packages link by name: each is the runtime of kernels, and beside torch_npu itself
# the virtual NPU as well.
_LIBRARIES = ("ascendcl", "acl_rt", "runtime", "ascendc_runtime", "register", "tiling_api",
              "platform", "error_manager", "profapi", "ascendalog")  # fmt: skip
_IN_TORCH_NPU = ("graph",)  # headers that torch_npu brings itself
_OF_NPU = ("opapi", "nnopbase", "acl_op_compiler", "hccl")
_CMAKE = ("tools/tikcpp", "compiler/tikcpp")  # the two places where packages look for it
_COMPILERS = ("bisheng", "ccec")
_MARK = ".anyop-ascend-home"


def make(folder: Path, checked: bool = False) -> Path:
    """Makes the folder, or makes it anew, and returns the script to be sourced. checked: kernels
    that it compiles check themselves.

    In an environment of `anyop npu install` the packages are those of torch_npu itself: its headers
    and its Python are there, and what it links is the virtual NPU (devices/npu).

    Raises InvalidArgument where the folder holds something else.
    """
    folder = folder.absolute()
    if "'" in str(folder):  # set_env.sh has the path between such quotes
        raise _anyop.InvalidArgument(f"{folder} has a quote in its name. Try another folder.")
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise _anyop.InvalidArgument(
            f"{folder} has files that `anyop ascend home` has not made. Try a new folder."
        )
    root = folder / "latest"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (folder / _MARK).touch()
    npu = has_torch_npu()
    _headers(root / "include", npu)
    _compilers(root / "bin", checked, npu)
    _libraries(root / "lib64", npu)
    words = {"HOME": str(folder), "LIBRARIES": str(runtime_library().parent)}
    own = data_root() / "ascend" / "home"
    for place in _CMAKE:
        words_of_cmake = {"RUNTIME": str(runtime_library())}
        _filled(own / "ascendc.cmake", root / place / "ascendc_kernel_cmake", words_of_cmake)
    if npu:
        (root / "python" / "site-packages").mkdir(parents=True)
    else:
        _python(own / "python", root / "python" / "site-packages")
    (root / "opp").mkdir()
    script = _filled(own / "set_env.sh", folder, words)
    (root / "set_env.sh").symlink_to(script)
    (root / "bin" / "setenv.bash").symlink_to(script)
    return script


def has_torch_npu() -> bool:
    """Whether this Python is that of an environment of `anyop npu install`."""
    return importlib.util.find_spec("_anyop_npu") is not None


def _filled(template: Path, folder: Path, words: dict[str, str]) -> Path:
    text = template.read_text(encoding="utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / template.name
    made.write_text(text, encoding="utf-8")
    return made


def _headers(folder: Path, npu: bool) -> None:
    """Links, so that a newer anyop's are used without making the folder again."""
    folder.mkdir()
    for part in wrapper.include_folders(npu):
        for path in sorted(part.iterdir()):
            is_of_torch_npu = npu and path.name in _IN_TORCH_NPU
            if path.name not in wrapper.ROOMS and not is_of_torch_npu:
                (folder / path.name).symlink_to(path)


def _compilers(folder: Path, checked: bool, npu: bool) -> None:
    folder.mkdir()
    words = f"{wrapper.CHECKED} " * checked + f"{wrapper.NPU} " * npu
    for name in _COMPILERS:
        file = folder / name
        python = sys.executable.replace("'", "'\\''")
        # Without PYTHONPATH: it may name stand-ins for frameworks that anyop would take for theirs.
        text = (
            f"#!/bin/sh\nunset PYTHONPATH\nexec '{python}' -m anyop.ascend.wrapper {words}\"$@\"\n"
        )
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)


def _libraries(folder: Path, npu: bool) -> None:
    """Scripts for the linker: the runtime of kernels, under each name."""
    folder.mkdir()
    device = f" {runtime_library().parent / 'anyop_npu.so'}" if npu else ""
    for name in (*_LIBRARIES, *(_OF_NPU if npu else ())):
        script = f"/* anyop's */ INPUT({runtime_library()}{device})\n"
        (folder / f"lib{name}.so").write_text(script, encoding="utf-8")


def _python(own: Path, folder: Path) -> None:
    for path in _files(own):
        to = folder / path.relative_to(own)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.symlink_to(path)
    torch_npu = folder / "torch_npu"
    (torch_npu / "include").symlink_to(include_folder() / "packages")
    (torch_npu / "lib").mkdir()
    script = f"/* anyop's */ INPUT({runtime_library()})\n"
    (torch_npu / "lib" / "libtorch_npu.so").write_text(script, encoding="utf-8")


def _files(folder: Path) -> Iterator[Path]:
    for path, _, names in os.walk(folder):
        yield from (Path(path, name) for name in names if name.endswith(".py"))
