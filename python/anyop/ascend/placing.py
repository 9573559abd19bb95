# SPDX-License-Identifier: Apache-2.0
"""Arguments of a launch in the runtime's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyop.ascend.arguments import Array, Memory
from anyop.ascend.native import Runtime


@dataclass(frozen=True)
class Part:
    """An argument, or a tensor of a list that is one: then it is named "x[0]"."""

    name: str
    value: Memory | bytes
    is_argument: bool = True


def parts_of(names: Sequence[str], values: Sequence[Memory | bytes]) -> list[Part]:
    """The arguments, and behind a list its tensors."""
    parts = list[Part]()
    for name, value in zip(names, values, strict=True):
        parts.append(Part(name, value))
        if isinstance(value, Memory):
            items = value.items or ()
            parts += [Part(f"{name}[{i}]", item, False) for i, item in enumerate(items)]
    return parts


class Call:
    """Arguments as a launch takes them. slack: bytes of memory behind each one."""

    def __init__(self, runtime: Runtime, parts: Sequence[Part], slack: int) -> None:
        self._runtime, self._parts = runtime, parts
        self._arrays = list[tuple[int, Array] | None]()
        self._kept: list[Any] = []
        for part in parts:
            place = self._place(part.value, slack)
            self._arrays.append(place)
            if part.is_argument:
                self._kept.append(_pointer(part.value, place))
        for i, part in enumerate(parts):
            self._address(i, part.value)
        pointers = [ctypes.cast(kept, ctypes.c_void_p) for kept in self._kept]
        self.pointers = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)

    def _place(self, value: Memory | bytes, slack: int) -> tuple[int, Array] | None:
        if isinstance(value, bytes) or value.array is None:
            return None
        array = np.asarray(value.array, order="C")  # a scalar stays one
        at = self._runtime.allocate(array.nbytes + slack)
        ctypes.memmove(at, array.ctypes.data, array.nbytes)
        return at, array

    def _address(self, i: int, value: Memory | bytes) -> None:
        """Writes the addresses of its tensors, which are the parts behind it, into a list."""
        if isinstance(value, bytes) or not value.items:
            return
        items = self._arrays[i + 1 : i + 1 + len(value.items)]
        addresses = (ctypes.c_uint64 * len(items))(*(place[0] if place else 0 for place in items))
        assert (place := self._arrays[i])
        size = ctypes.sizeof(addresses)
        ctypes.memmove(place[0] + place[1].nbytes - size, addresses, size)

    def declare(self) -> None:
        for part, place in zip(self._parts, self._arrays, strict=True):
            if place is not None and isinstance(part.value, Memory):
                at, array = place
                self._runtime.declare(at, array.nbytes, part.name, part.value.access)

    def fetch(self) -> list[Array | None]:
        """The array of each part as it is now."""
        fetched: list[Array | None] = []
        for place in self._arrays:
            array = None if place is None else place[1].copy()
            if place is not None and array is not None:
                ctypes.memmove(array.ctypes.data, place[0], array.nbytes)
            fetched.append(array)
        return fetched

    def release(self) -> None:
        for place in self._arrays:
            if place is not None:
                self._runtime.release(place[0])


def _pointer(value: Memory | bytes, place: tuple[int, Array] | None) -> Any:
    """What points to the value of a parameter."""
    if isinstance(value, bytes):
        return ctypes.create_string_buffer(value, len(value))
    return ctypes.pointer(ctypes.c_void_p(place[0] if place else None))


@contextmanager
def placed(runtime: Runtime, parts: Sequence[Part], slack: int) -> Iterator[Call]:
    """A call whose arguments the runtime knows, for as long as it is used."""
    runtime.clear()
    call = Call(runtime, parts, slack)
    try:
        call.declare()
        yield call
    finally:
        call.release()
