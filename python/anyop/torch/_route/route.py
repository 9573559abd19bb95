# SPDX-License-Identifier: Apache-2.0
"""How torch's calls reach the kernels: through the compiled adapter, or through Python."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path

import torch

from anyop import _anyop
from anyop.hosting.sentences import clause


@dataclass
class Status:
    """route: "compiled adapter" or "python route", and why. file: the adapter's, "" without one."""

    route: str
    why: str
    file: str
    torch: str


class Adapter:
    """The functions of a loaded adapter."""

    def __init__(self, file: Path) -> None:
        self.file = file
        # PyDLL keeps Python's lock in calls: nothing else guards the adapter's count of operators.
        library = ctypes.PyDLL(str(file))
        self._register = library.anyop_torch_register_new
        self._register.restype = ctypes.c_char_p
        self._register.argtypes = [ctypes.c_size_t]
        library.anyop_torch_version.restype = ctypes.c_char_p
        self.torch = library.anyop_torch_version().decode()
        library.anyop_torch_empty.restype = ctypes.c_void_p
        self.empty: int = library.anyop_torch_empty()
        library.anyop_torch_device_of.restype = ctypes.c_void_p
        self.device_of: int = library.anyop_torch_device_of()

    def register_new(self, n: int) -> None:
        """Implements those of the first n operators that are not yet.

        torch must know their schemas: n leaves out what another thread has loaded meanwhile.
        """
        error = self._register(n)
        if error:
            raise _anyop.Internal(f"torch adapter: {clause(error.decode())}. Please report it.")


@functools.cache
def adapter() -> Adapter | None:
    """The adapter, None where calls go through Python."""
    return _find()[0]


def status() -> Status:
    """Which route is active, and why."""
    found, why = _find()
    route = "compiled adapter" if found else "python route"
    return Status(route, why, str(found.file) if found else "", torch.__version__)


def why_no_adapter() -> str:
    """For refusals: why there is no adapter, and what to do, without the last full stop."""
    if environment("ANYOP_TORCH") == "python":
        return "ANYOP_TORCH=python leaves it out. Try ANYOP_TORCH=auto, which builds it if need be"
    why = _find()[1]
    return f"it is not there: {why}" + ("" if "Try" in why else ". Try again when that is mended")


@functools.cache
def _find() -> tuple[Adapter | None, str]:
    wanted = environment("ANYOP_TORCH")
    if wanted == "python":
        return None, "ANYOP_TORCH is python"
    try:
        return _load()
    except Exception as error:  # no compiler, for instance; unless forbidden, Python takes over
        if wanted == "adapter":
            text = f"anyop.torch: ANYOP_TORCH is adapter, but {clause(error)}."
            raise _anyop.NotAvailable(text) from None
        return None, clause(error)


def _load() -> tuple[Adapter, str]:
    from anyop.torch._route import build

    file = build.prebuilt()
    if file.exists():
        return _checked(Adapter(file)), "built with anyop"
    file = build.built(environment("ANYOP_CACHE"))
    try:
        return _checked(Adapter(file)), "built on first use"
    except OSError:  # the file was damaged since it was built, so it is built once more
        file.unlink(missing_ok=True)
        file = build.built(environment("ANYOP_CACHE"))
        return _checked(Adapter(file)), "built on first use"


def _checked(adapter: Adapter) -> Adapter:
    # The adapter says what torch's headers say, which have no local part such as "+cpu".
    if adapter.torch != torch.__version__.partition("+")[0]:
        raise RuntimeError(f"{adapter.file} is for torch {adapter.torch}, not {torch.__version__}")
    return adapter


def environment(name: str) -> str:
    values = {row[0]: row[4] for row in _anyop.environment()}
    return values[name]
