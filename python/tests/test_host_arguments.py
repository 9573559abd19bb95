# SPDX-License-Identifier: Apache-2.0
"""Every pointer and field that anyop/host.h takes, wrong: an error with a text, never a crash. What
there is to try is read from the header, so that a new function cannot be forgotten.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
from checkout import ROOT

HEADER = (ROOT / "include/anyop/host.h").read_text()
MOST_RANK = 8
# Of the header: NULL means something.
MAY_BE_NULL = {("anyop_run_call_on", "stream"), ("anyop_gradient_of_call", "given")}


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32),
        ("dtype", DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


# What a field of a tensor may wrongly be. Strides may be NULL, and nothing tells where memory ends.
WRONG: dict[str, list[Any]] = {
    "data": [None],
    "device": [DLDevice(2, 0), DLDevice(-1, 7)],
    "ndim": [2**31 - 1, -(2**31), -2, MOST_RANK + 1],
    "dtype": [DLDataType(255, 255, 65535), DLDataType(2, 64, 1), DLDataType(0, 1, 0)],
    "shape": [None],
    "strides": [],
    "byte_offset": [],
}
# Inference does not look at them, and takes a dtype of 0 bits.
NOT_INFERRED_FROM = {"data", "device"}


@dataclass
class Parameter:
    kind: str
    name: str

    @property
    def is_pointer(self) -> bool:
        return self.kind.endswith("*")


def functions() -> dict[str, tuple[str, list[Parameter]]]:
    """name -> (what it returns, parameters)."""
    found = {}
    for returns, name, text in re.findall(r"ANYOP_EXPORT ([^;(]*?[ *])(\w+)\(([^)]*)\);", HEADER):
        parameters = [] if text.strip() == "void" else re.split(r",\s*", text)
        found[name] = (
            returns.strip(),
            [Parameter(*re.fullmatch(r"(.*[ *])(\w+)", p).groups()) for p in parameters],  # type: ignore[union-attr]
        )
    return {n: (r, [Parameter(p.kind.strip(), p.name) for p in ps]) for n, (r, ps) in found.items()}


def tensor(value: float) -> DLTensor:
    memory, shape = (ctypes.c_float * 3)(value, value, value), (ctypes.c_int64 * 1)(3)
    made = DLTensor(
        ctypes.addressof(memory), DLDevice(1, 0), 1, DLDataType(2, 32, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0,
    )  # fmt: skip
    made.kept = memory, shape
    return made


class Caller:
    """Makes right calls of each function, but for what a test changes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(Path(anyop.__file__).parent / "libanyop.so"))
        self.library.anyop_error_text.restype = ctypes.c_char_p
        text = b"anyop.call/1 anyop.mul(x = f32, y = f32) -> z"
        call = ctypes.c_void_p()
        size = ctypes.c_uint64(len(text))
        assert self.library.anyop_find_call(text, size, ctypes.byref(call)) == 0, self.error()
        self.call, self.text = call, text

    def error(self) -> str:
        return str(self.library.anyop_error_text().decode())

    def right(self, p: Parameter) -> Any:
        """By its type; the call has two inputs and a result."""
        n = 1 if p.name.endswith(("results", "given")) else 2
        match p.kind:
            case "void*":
                return None  # a stream, of tensors that lie on the host
            case "const anyop_call*":
                return self.call
            case "const anyop_call**":
                return ctypes.byref(ctypes.c_void_p())
            case "const char*":
                return self.text
            case "const DLTensor*":
                return (DLTensor * n)(*(tensor(k + 1) for k in range(n)))
            case "const uint8_t*":
                return (ctypes.c_uint8 * n)(*[1] * n)
            case "uint64_t":
                return ctypes.c_uint64(len(self.text))
            case "int32_t":
                return ctypes.c_int32(0 if p.name == "index" else n)
        assert re.fullmatch(r"anyop_\w+\*", p.kind), f"{p.kind} {p.name} is not known here"
        room = (ctypes.c_uint64 * 64)()  # for any struct
        room[0] = 48 if p.kind != "anyop_shape*" else 0
        return room

    def make(self, name: str, changed: dict[str, Any]) -> tuple[Any, str]:
        """What the function returns, and the text of its error."""
        returns, parameters = functions()[name]
        function = getattr(self.library, name)
        function.restype = ctypes.c_char_p if returns == "const char*" else ctypes.c_int
        arguments = [changed.get(p.name, self.right(p)) for p in parameters]
        answer = function(*arguments)
        is_error = answer is None or answer == -1 if returns != "int" else answer != 0
        return answer, self.error() if is_error else ""


def tries() -> list[tuple[str, str, str, Any, str]]:
    """(function, parameter, field or "", value, what the text must hold)."""
    found: list[tuple[str, str, str, Any, str]] = []
    assert set(WRONG) == {name for name, _ in DLTensor._fields_}
    for name, (_, parameters) in functions().items():
        for p in parameters:
            if p.is_pointer and (name, p.name) not in MAY_BE_NULL:
                found.append((name, p.name, "", None, f"{name}: {p.name} is null, but must be"))
            if p.kind == "const DLTensor*":
                for field, values in WRONG.items():
                    if not ("infer" in name and field in NOT_INFERRED_FROM):
                        found += [(name, p.name, field, value, ": ") for value in values]
            if p.kind[:-1] in re.findall(r"uint32_t size;[^}]*\} (\w+);", HEADER):
                for size in (0, 4):
                    text = f"{name}: {p.name}->size is {size}, but must be the struct's, "
                    found.append((name, p.name, "size", size, text))
            if p.kind == "int32_t":
                found += [(name, p.name, "", ctypes.c_int32(n), ": ") for n in (-1, -(2**31))]
            if p.kind == "uint64_t":
                found.append((name, p.name, "", ctypes.c_uint64(2**64 - 1), f"{name}: bytes is 18"))
    return found


def run() -> None:
    """In a process of its own, which a crash may end."""
    caller = Caller()
    for name, parameter, field, value, text in tries():
        print(name, parameter, field, value, flush=True)
        kinds = {p.name: p for p in functions()[name][1]}
        changed = value
        if field:
            changed = caller.right(kinds[parameter])
            if field == "size":
                changed[0] = value
            else:
                setattr(changed[0], field, value)
        answer, error = caller.make(name, {parameter: changed})
        assert answer in (None, -1, 1, 2), f"{name} answers {answer}"
        assert text in error, f"'{text}' is not in '{error}'"
    for name in set(functions()) - {"anyop_load_library", "anyop_error_text"}:
        assert caller.make(name, {})[1] == "", caller.error()
    print("done")


def test_the_header_is_read_whole() -> None:
    assert len(functions()) == HEADER.count("ANYOP_EXPORT") == 13
    assert sum(p.is_pointer for _, ps in functions().values() for p in ps) == 24


def test_no_wrong_pointer_or_field_ends_the_process() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}, then status {done.returncode}: {done.stderr}"
    assert len(lines) == len(tries()) + 1 > 60


if __name__ == "__main__":
    run()
