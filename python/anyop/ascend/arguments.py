# SPDX-License-Identifier: Apache-2.0
"""Arguments of kernels as texts: "f16[n, 64]", "out f32[n]", "n * 64", "struct u32 n, f32 0.5",
"list f16[8], n of f16[4]".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anyop import _anyop
from anyop.ascend.expressions import evaluate, whole
from anyop.ascend.native import READ, WHOLE, WRITE
from anyop.ascend.source import split

Array = np.ndarray[Any, Any]
DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "uint16", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "bool": "bool",
}  # fmt: skip
_ACCESS = {"in": READ, "out": WRITE | WHOLE, "inout": READ | WRITE}
_MOST_ELEMENTS = 2**32
_MOST_ITEMS = 1024  # of a list of tensors
_TENSOR = re.compile(r"(?:(in|out|inout)\s+)?(\w+)\s*\[([^\]]*)\]\s*(.*)", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s+(.+)", re.DOTALL)
_LETTERS = {  # of parameters: the letter of Python's struct, and the type in C
    "b": ("?", "bool"), "c": ("b", "int8_t"), "C": ("B", "uint8_t"), "s": ("h", "int16_t"),
    "S": ("H", "uint16_t"), "i": ("i", "int32_t"), "I": ("I", "uint32_t"), "q": ("q", "int64_t"),
    "Q": ("Q", "uint64_t"), "h": ("e", "half"), "e": ("H", "bfloat16_t"), "f": ("f", "float"),
    "d": ("d", "double"),
}  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """What a pointer points to, None for null, and how a kernel may touch it. items: the tensors of
    a list, whose addresses are the last words of `array` once they have some; None: it is no list.
    """

    array: Array | None
    access: int
    dtype: str = ""
    is_struct: bool = False
    items: tuple[Memory, ...] | None = None

    def is_output(self) -> bool:
        """Whether the kernel has to write all of it."""
        if self.items:
            return all(item.is_output() for item in self.items)
        return bool(self.access & WHOLE)


def value_of(
    text: str,
    letter: str,
    size: int,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    struct_size: int = 0,
) -> Memory | bytes:
    """The argument that a text describes, for a parameter of this letter and number of bytes: bytes
    of what is passed by value. struct_size: of the struct that a pointer points to, 0 for another
    one. Raises InvalidArgument.
    """
    text = text.strip()
    if letter == "p":
        memory = _memory(text, sizes, rng)
        check_struct(f"'{text}'", memory, struct_size)
        return memory
    if text.startswith("struct"):
        if letter != "t":
            raise _anyop.InvalidArgument(f"'{text}' is a struct, but must be a {_name(letter)}.")
        data = _struct(text, sizes)
        if len(data) != size:
            raise _anyop.InvalidArgument(
                f"'{text}' has {len(data)} bytes, but the struct of the kernel has {size}."
            )
        return data
    if letter == "t":
        raise _anyop.InvalidArgument(
            f"'{text}' is a number, but must be a struct of {size} bytes. Try 'struct u32 1, ...'."
        )
    return _number(text, letter, sizes)


def check_struct(said: str, memory: Memory, struct_size: int) -> None:
    """Raises InvalidArgument where bytes are no struct of this size. Tensors may be several."""
    if memory.array is None or memory.items is not None or not struct_size:
        return
    there = memory.array.nbytes
    is_struct = memory.is_struct
    if there != struct_size if is_struct else there % struct_size:
        several = "" if is_struct else " or several of them"
        raise _anyop.InvalidArgument(
            f"{said} has {there} bytes, but the struct of the kernel has {struct_size}{several}."
        )


def _memory(text: str, sizes: Mapping[str, int], rng: np.random.Generator) -> Memory:
    if text in ("none", "null"):
        return Memory(None, 0)
    if text.startswith("struct"):
        data = np.frombuffer(_struct(text, sizes), np.uint8).copy()
        return Memory(data, READ, "u8", is_struct=True)
    if text.partition(" ")[0] == "list":
        return list_of(text, sizes, rng)
    return _tensor(text, sizes, rng)


def list_of(text: str, sizes: Mapping[str, int], rng: np.random.Generator) -> Memory:
    """Words as kernels read them (anyop_ascend/tensor_list.h): where the addresses begin, rank and
    sizes of each tensor, the addresses. "list 3 of f16[8], out f16[4]" has four tensors.
    """
    items = list[Memory]()
    for part in map(str.strip, split(text.removeprefix("list"))):
        number, separator, tensor = part.rpartition(" of ")
        times = whole(number, sizes) if separator else 1
        if not 0 <= times <= _MOST_ITEMS:
            raise _anyop.InvalidArgument(
                f"'{part}' is {times} tensors, but a list has 0 to {_MOST_ITEMS}."
            )
        items += [_tensor(tensor.strip(), sizes, rng) for _ in range(times)]
    words = list[int]()
    for i, item in enumerate(items):
        shape = () if item.array is None else item.array.shape
        words += [len(shape) | i << 32, *shape]
    words = [8 * (1 + len(words)), *words, *(0 for _ in items)]
    return Memory(np.array(words, np.uint64), READ, "u64", items=tuple(items))


def _tensor(text: str, sizes: Mapping[str, int], rng: np.random.Generator) -> Memory:
    found = _TENSOR.fullmatch(text)
    if not found:
        raise _anyop.InvalidArgument(
            f"'{text}' is no tensor, but the kernel takes a pointer here. Try 'f16[8, 64]', "
            "'out f32[8]', 'list f16[8], f16[4]', 'struct u32 8', 'none'."
        )
    access, dtype, dims, fill = found.groups()
    if dtype not in DTYPES:
        raise _anyop.InvalidArgument(
            f"'{text}': there is no dtype {dtype}.{_anyop.did_you_mean(dtype, list(DTYPES))}"
        )
    shape = tuple(whole(d, sizes) for d in split(dims) if d.strip())
    if math.prod(shape) > _MOST_ELEMENTS:
        raise _anyop.InvalidArgument(f"'{text}' has the sizes {list(shape)}, which are too many.")
    if any(d < 0 for d in shape):
        raise _anyop.InvalidArgument(f"'{text}' has the sizes {list(shape)}, but none may be < 0.")
    if access == "out" and not fill.strip():  # as fresh memory is: what is not written shows
        array = np.full((*shape, np.dtype(DTYPES[dtype]).itemsize), 0xFF, np.uint8)
        return Memory(array.view(DTYPES[dtype])[..., 0], _ACCESS[access], dtype)
    array = _filled(shape, dtype, fill.strip(), sizes, rng)
    return Memory(array, _ACCESS[access or "in"], dtype)


def _filled(
    shape: tuple[int, ...],
    dtype: str,
    fill: str,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> Array:
    is_float = dtype in ("f16", "f32", "f64", "bf16")
    fill = fill or ("normal" if is_float else "zeros")
    numbers: Array
    if fill.startswith("below "):
        bound = whole(fill.removeprefix("below "), sizes)
        if not 1 <= bound <= 2**63 - 1:
            raise _anyop.InvalidArgument(f"'{fill}' is below {bound}, but must be below 1 or more.")
        numbers = rng.integers(0, bound, shape)
    elif fill == "normal":
        numbers = rng.standard_normal(shape)
    elif fill == "uniform":
        numbers = rng.uniform(-1, 1, shape)
    elif fill in ("zeros", "ones"):
        numbers = np.full(shape, fill == "ones")
    elif fill == "arange":
        numbers = np.arange(int(np.prod(shape))).reshape(shape)
    elif fill.endswith(".npy"):
        return _loaded(Path(fill), shape, dtype)
    else:
        raise _anyop.InvalidArgument(
            f"'{fill}' is no way to fill a tensor. Try normal, uniform, zeros, ones, arange, "
            "'below n', or a file.npy."
        )
    return to_bf16(numbers) if dtype == "bf16" else numbers.astype(DTYPES[dtype])


def _loaded(path: Path, shape: tuple[int, ...], dtype: str) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _anyop.InvalidArgument(f"{path} cannot be read: {why.removesuffix('.')}.") from None
    if array.shape != shape:
        raise _anyop.InvalidArgument(
            f"{path} has the sizes {list(array.shape)}, but must have {list(shape)}."
        )
    if dtype == "bf16" and array.dtype.kind == "f":
        return to_bf16(array)
    return np.ascontiguousarray(array.astype(DTYPES[dtype]))


def to_bf16(array: Array) -> Array:
    """Bits of bfloat16, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.where(np.isnan(array), 0x7FC0, rounded >> 16).astype(np.uint16)


def from_bf16(bits: Array) -> Array:
    """The numbers that bits of bfloat16 are, as f32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _struct(text: str, sizes: Mapping[str, int]) -> bytes:
    """Fields as a compiler lays them out, with their natural alignment."""
    data, widest = b"", 1
    for field in split(text.removeprefix("struct")):
        found = _FIELD.fullmatch(field.strip())
        if not found or found[1] not in DTYPES:
            raise _anyop.InvalidArgument(
                f"'{field.strip()}' is no field of a struct. Try 'struct u32 8, f32 0.5'."
            )
        dtype, value = np.dtype(DTYPES[found[1]]), evaluate(found[2], sizes)
        number = to_bf16(np.array(value)) if found[1] == "bf16" else _cast(dtype, value, found[2])
        widest = max(widest, dtype.itemsize)
        data += b"\0" * (-len(data) % dtype.itemsize) + number.tobytes()
    return data + b"\0" * (-len(data) % widest)


def _cast(dtype: np.dtype[Any], value: float, text: str) -> Array:
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise _anyop.InvalidArgument(f"'{text}' is {value}, which no {dtype} can hold.")
    return np.array(value).astype(dtype)


def _number(text: str, letter: str, sizes: Mapping[str, int]) -> bytes:
    code, name = _LETTERS[letter]
    value = evaluate(text, sizes)
    if letter == "e":
        return to_bf16(np.array(value)).tobytes()
    if code not in "efd":
        value = whole(text, sizes)
    try:
        return struct.pack(f"={code}", bool(value) if code == "?" else value)
    except (struct.error, OverflowError):
        raise _anyop.InvalidArgument(
            f"'{text}' is {value}, but the kernel takes a {name} here."
        ) from None


def _name(letter: str) -> str:
    return _LETTERS[letter][1]


def described(letter: str, size: int) -> str:
    """A parameter as its declaration has it, for messages."""
    return {"p": "pointer", "t": f"struct of {size} bytes"}.get(letter) or _name(letter)
