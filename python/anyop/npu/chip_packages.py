# SPDX-License-Identifier: Apache-2.0
"""Packages that were built on a machine with CANN, for an NPU: what of them is loaded here is
refused with the way out, in the place of the name of a function that nobody knows.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType

_OPERATORS = "op_api/lib/libcust_opapi.so"
# The loader's error about a library of CANN, or about a function of one.
_OF_CANN = re.compile(
    r"undefined symbol: (rt[A-Z]|acl|Nnop|\w*Ascend|_ZNK?(2op|2ge|4gert|8optiling))"
    r"|\blib(runtime|ascend\w*|acl\w*|register|platform|tiling_api|error_manager|nnopbase|opapi\w*"
    r"|graph\w*|ge_\w+|profapi|unified_dlog|c_sec|hccl\w*|exe_graph|lowering|metadef)\.so"
)


def check_operators() -> None:
    """Loads the operators of packages from where torch_npu looks for them."""
    for file in _libraries():
        if not file.is_file():  # to open a pipe would wait for whoever writes to it
            raise ImportError(
                f"anyop.npu: {file} is a {_kind(file)}, but must be a library: torch_npu opens "
                "what has this name. Take it out of ASCEND_CUSTOM_OPP_PATH."
            )
        try:
            ctypes.CDLL(str(file))
        except OSError as error:
            if _OF_CANN.search(str(error)):
                raise ImportError(
                    f"{_refusal(file, error)}, or take it out of ASCEND_CUSTOM_OPP_PATH."
                ) from None


def explain_imports() -> None:
    """From now on, where an extension of Python's cannot be loaded for lack of CANN, says so."""
    create = ExtensionFileLoader.create_module

    def create_module(self: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
        try:
            return create(self, spec)
        except ImportError as error:
            if not _OF_CANN.search(str(error)):
                raise
            text = f"{_refusal(Path(self.path), error)}."
            raise ImportError(text, name=spec.name, path=self.path) from None

    ExtensionFileLoader.create_module = create_module  # type: ignore[method-assign]


def _libraries() -> Iterator[Path]:
    for folder in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"):
        if folder and Path(folder, _OPERATORS).exists():
            yield Path(folder, _OPERATORS)
    if installed := os.environ.get("ASCEND_OPP_PATH", ""):
        yield from sorted(Path(installed, "vendors").glob(f"*/{_OPERATORS}"))


def _kind(file: Path) -> str:
    kinds = {"directory": file.is_dir(), "pipe": file.is_fifo(), "socket": file.is_socket()}
    return next((kind for kind, is_it in kinds.items() if is_it), "device")


def _refusal(file: Path, error: Exception) -> str:
    why = str(error).removeprefix(f"{file}: ")
    return (
        f"anyop.npu: {file} cannot be loaded: {why}. It was built for an NPU, of which the virtual "
        "one has no such function. Build it from its sources with the folder that `anyop ascend "
        "home` makes"
    )
