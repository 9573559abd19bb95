# SPDX-License-Identifier: Apache-2.0
"""Ways in which the host touches memory, each a program of planted.py with memory of the device."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

import numpy as np
import torch

N = 1024
Touch = Callable[[int], object]


def is_left_in_peace(touch: Touch, address: int) -> bool:
    """Whether a child that touches the memory is left in peace; else it must have named it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        touch(address)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    return not (os.WIFSIGNALED(status) and "npu:0: the host touched device memory at" in text)


def floats(address: int) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * N).from_address(address)


def in_a_thread(address: int) -> None:
    thread = threading.Thread(target=lambda: floats(address)[0])
    thread.start()
    thread.join()


def reads_the_first(address: int) -> float:
    return floats(address)[0]


def reads_the_last(address: int) -> float:
    return floats(address)[N - 1]


def writes(address: int) -> None:
    floats(address)[3] = 1.0


def reads_bytes(address: int) -> bytes:
    return ctypes.string_at(address + 12, 4)


def copies_out(address: int) -> None:
    ctypes.memmove(ctypes.create_string_buffer(16), address, 16)


def copies_in(address: int) -> None:
    ctypes.memmove(address, b"0123456789abcdef", 16)


def sets(address: int) -> None:
    ctypes.memset(address, 0, 8)


def sums_by_numpy(address: int) -> float:
    return float(np.ctypeslib.as_array(floats(address)).sum())


def computes_by_torch(address: int) -> float:
    return float(torch.frombuffer(floats(address), dtype=torch.float32).max())


TOUCHES: tuple[Touch, ...] = (
    reads_the_first, reads_the_last, writes, reads_bytes, copies_out, copies_in, sets,
    sums_by_numpy, computes_by_torch, in_a_thread,
)  # fmt: skip
