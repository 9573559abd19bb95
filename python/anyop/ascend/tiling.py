# SPDX-License-Identifier: Apache-2.0
"""Tiling functions of op_host files: what they say of a launch (anyop_ascend/kernel_table.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyop import _anyop
from anyop.ascend.arguments import Memory
from anyop.ascend.native import Runtime

# As ge::DataType has them.
_NUMBERS = {
    "f32": 0, "f16": 1, "i8": 2, "i32": 3, "u8": 4, "i16": 6, "u16": 7, "u32": 8, "i64": 9,
    "u64": 10, "f64": 11, "bool": 12, "bf16": 27,
}  # fmt: skip
_ABSENT = -1
_CAPACITY = 1 << 16  # bytes of tiling data; kernels get a few hundred


@dataclass(frozen=True)
class Tiling:
    """file: of C++, with a tiling function of the operator `op`. attributes: in no order."""

    file: Path
    op: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Tiled:
    """What a tiling function gave."""

    blocks: int
    key: int
    data: bytes
    workspace_bytes: int


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("more", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_float),
        ("text", ctypes.c_char_p),
        ("integers", ctypes.POINTER(ctypes.c_int64)),
        ("numbers", ctypes.POINTER(ctypes.c_float)),
        ("count", ctypes.c_uint32),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_uint32),
        ("inputs", ctypes.c_uint32),
        ("outputs", ctypes.c_uint32),
        ("attributes", ctypes.c_uint32),
        ("input", ctypes.POINTER(_Tensor)),
        ("output", ctypes.POINTER(_Tensor)),
        ("attribute", ctypes.POINTER(_Attribute)),
        ("data", ctypes.c_void_p),
        ("capacity", ctypes.c_uint64),
        ("data_bytes", ctypes.c_uint64),
        ("tiling_key", ctypes.c_uint64),
        ("workspace_bytes", ctypes.c_uint64),
        ("block_dim", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
    )


def tile(
    runtime: Runtime,
    library: str,
    op: str,
    tensors: Sequence[Memory],
    attributes: Mapping[str, Any],
) -> Tiled:
    """Calls the tiling function. tensors: the kernel's, in order; an `out` is an output, as a list
    of `out` is, every other one an input. Raises InvalidArgument with what the runtime says.
    """
    ctypes.CDLL(library)  # tells the runtime of its functions
    inputs = [one for t in tensors if not t.is_output() for one in _described(t)]
    outputs = [one for t in tensors if t.is_output() for one in _described(t)]
    given = [_attribute(name, value) for name, value in attributes.items()]
    room = ctypes.create_string_buffer(_CAPACITY)
    call = _Call(
        bytes=ctypes.sizeof(_Call), inputs=len(inputs), outputs=len(outputs),
        attributes=len(given), input=_array(_Tensor, inputs), output=_array(_Tensor, outputs),
        attribute=_array(_Attribute, given), data=ctypes.addressof(room), capacity=_CAPACITY,
    )  # fmt: skip
    runtime.tile(op, ctypes.byref(call))
    return Tiled(
        call.block_dim, call.tiling_key, room.raw[: call.data_bytes], call.workspace_bytes
    )


def _array(kind: Any, items: list[Any]) -> Any:
    return (kind * max(1, len(items)))(*items)


def _described(memory: Memory) -> list[_Tensor]:
    """A tensor, or those of a list; an absent one for an empty list."""
    items = (memory,) if memory.items is None else memory.items
    told = [_one(item, len(items) - 1 - i) for i, item in enumerate(items)]
    return told or [_Tensor(_ABSENT, 0, None, None, 0)]


def _one(memory: Memory, more: int) -> _Tensor:
    if memory.array is None:
        return _Tensor(_ABSENT, 0, None, None, more)
    dims = (ctypes.c_int64 * max(1, memory.array.ndim))(*memory.array.shape)
    data = memory.array.ctypes.data_as(ctypes.c_void_p)
    return _Tensor(_NUMBERS[memory.dtype], memory.array.ndim, dims, data, more)


def _attribute(name: str, value: Any) -> _Attribute:
    made = _Attribute(name=name.encode())
    if isinstance(value, bool):
        made.kind, made.integer = b"b", value
    elif isinstance(value, int):
        made.kind, made.integer = b"i", value
    elif isinstance(value, float):
        made.kind, made.number = b"f", value
    elif isinstance(value, str):
        made.kind, made.text = b"s", value.encode()
    elif isinstance(value, list) and all(isinstance(v, (int, float)) for v in value):
        made.count = len(value)
        if any(isinstance(v, float) for v in value):
            made.kind, made.numbers = b"F", (ctypes.c_float * max(1, len(value)))(*value)
        else:
            made.kind, made.integers = b"I", (ctypes.c_int64 * max(1, len(value)))(*value)
    else:
        raise _anyop.InvalidArgument(
            f"the attribute {name} is {value!r}, but must be a number, a text, true or false, or a "
            "list of numbers."
        )
    return made
