# SPDX-License-Identifier: Apache-2.0
"""The C interface of the runtime and of compiled files (anyop_ascend/kernel_table.h)."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyop import _anyop
from anyop.ascend.build import runtime_library

READ, WRITE, WHOLE = 1, 2, 4


class _Options(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_uint32),
        ("strict", ctypes.c_uint32),
        ("soc", ctypes.c_char_p),
        ("max_steps", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("tiling_key", ctypes.c_uint64),
    )


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("parameters", ctypes.c_char_p),
        ("bytes", ctypes.POINTER(ctypes.c_uint32)),
        ("call", ctypes.c_void_p),
        ("structs", ctypes.POINTER(ctypes.c_uint32)),
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel of a loaded file. parameters: a letter and a number of bytes each. structs: of each
    parameter the bytes of the struct that it points to; 0 where it points to none.
    """

    name: str
    parameters: tuple[tuple[str, int], ...]
    entry: Any
    structs: tuple[int, ...] = ()


class Runtime:
    """The library that kernels run on; one for the process, used by one thread."""

    def __init__(self) -> None:
        self._library = library = ctypes.CDLL(str(runtime_library()))
        for name in ("error", "socs", "findings"):
            getattr(library, f"anyop_ascend_{name}").restype = ctypes.c_char_p
        library.anyop_ascend_allocate.restype = ctypes.c_void_p
        library.anyop_ascend_allocate.argtypes = (ctypes.c_uint64,)
        library.anyop_ascend_release.argtypes = (ctypes.c_void_p,)
        library.anyop_ascend_declare.argtypes = (
            ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint32,
        )  # fmt: skip

    def use_device(self, library: Path) -> None:
        """Host functions of packages launch on streams of this library's device from now on."""
        if self._library.anyop_ascend_use_device(str(library).encode()):
            raise _anyop.NotAvailable(self._error() + ".")

    def socs(self) -> list[str]:
        names: list[str] = json.loads(self._library.anyop_ascend_socs())
        return names

    def configure(
        self, soc: str, strict: bool, max_steps: int = 0, seed: int = 0, tiling_key: int = 0
    ) -> None:
        if soc and soc not in self.socs():
            raise _anyop.InvalidArgument(
                f"there is no SoC '{soc}'.{_anyop.did_you_mean(soc, self.socs())} "
                f"Known: {', '.join(self.socs())}."
            )
        size = ctypes.sizeof(_Options)
        options = _Options(size, strict, soc.encode() or None, max_steps, seed, tiling_key)
        if self._library.anyop_ascend_configure(ctypes.byref(options)):
            raise _anyop.InvalidArgument(self._error())

    def allocate(self, size: int) -> int:
        at: int | None = self._library.anyop_ascend_allocate(size)
        if not at:
            raise MemoryError(f"{size} bytes for a kernel's argument are more than there are.")
        return at

    def release(self, at: int) -> None:
        self._library.anyop_ascend_release(at)

    def declare(self, at: int, size: int, name: str, access: int) -> None:
        self._library.anyop_ascend_declare(at, size, name.encode(), access)

    def clear(self) -> None:
        self._library.anyop_ascend_clear()

    def launch(self, kernel: Kernel, blocks: int, arguments: Any) -> bool:
        """Whether the kernel came to its end. Raises InvalidArgument where it cannot start."""
        found = len(self.findings())
        if not self._library.anyop_ascend_launch(kernel.entry, ctypes.c_uint32(blocks), arguments):
            return True
        # A kernel that was ended left a finding; a launch that could not begin left none.
        if len(self.findings()) == found:
            raise _anyop.InvalidArgument(self._error())
        return False

    def tile(self, op: str, call: Any) -> None:
        """call: of the struct anyop_ascend_tiling_call."""
        if self._library.anyop_ascend_tiling(op.encode(), call):
            raise _anyop.InvalidArgument(self._error() + ".")

    def findings(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self._library.anyop_ascend_findings())
        return rows

    def _error(self) -> str:
        text: bytes = self._library.anyop_ascend_error()
        return text.decode(errors="replace")


def kernels_of(file: Path) -> dict[str, Kernel]:
    """The kernels of a compiled file, by name."""
    library = ctypes.CDLL(str(file))
    table = (_Kernel * 1).in_dll(library, "anyop_ascend_kernels")
    row, found = ctypes.addressof(table), {}
    while (entry := _Kernel.from_address(row)).name:
        letters = entry.parameters.decode()
        sizes = [entry.bytes[i] for i in range(len(letters))]
        name = entry.name.decode()
        structs = tuple(entry.structs[i] for i in range(len(letters)))
        parameters = tuple(zip(letters, sizes, strict=True))
        found[name] = Kernel(name, parameters, ctypes.byref(entry), structs)
        row += ctypes.sizeof(_Kernel)
    return found
