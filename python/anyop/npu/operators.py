# SPDX-License-Identifier: Apache-2.0
"""The operators of aclnn that the virtual NPU has, and what computes each."""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path

import anyop


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(anyop.__file__).parent / "anyop_npu.so"))
    library.anyop_npu_operator.restype = ctypes.c_bool
    library.anyop_npu_operator.argtypes = [ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_char_p)] * 2]
    library.anyop_npu_shared.restype = library.anyop_npu_called.restype = ctypes.c_char_p
    return library


@functools.cache
def operators() -> dict[str, str]:
    """Names, in order, with the script that computes each."""
    name, script = ctypes.c_char_p(), ctypes.c_char_p()
    found: dict[str, str] = {}
    where = ctypes.byref(name), ctypes.byref(script)
    while _library().anyop_npu_operator(len(found), *where):
        found[(name.value or b"").decode()] = (script.value or b"").decode()
    return found


def called() -> list[str]:
    """The names that this process has called until now."""
    names: bytes = _library().anyop_npu_called()
    return names.decode().split()


def computed_by(name: str) -> str:
    """Operators of anyop, or torch where there is none."""
    shared: bytes = _library().anyop_npu_shared()
    functions = dict(re.findall(r"^def (\w+)(.*?)(?=^def |\Z)", shared.decode(), re.M | re.S))
    seen: set[str] = set()
    left, text = [operators()[name]], ""
    while left:
        text += left[-1]
        words = set(re.findall(r"\b(\w+)\(", left.pop())) & set(functions)
        left += [functions[word] for word in sorted(words - seen)]
        seen |= words
    ours = sorted(set(re.findall(r"\banyop\.(\w+)", text)))
    return ", ".join(f"anyop.{one}" for one in ours) or "torch"
