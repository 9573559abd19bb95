# SPDX-License-Identifier: Apache-2.0
"""torch's device "far": tensors of torch in the memory of the device for tests (devices/far).

start() makes it, for the rest of the process, which can have no other backend of its kind. The
device reads FAR_SEED, FAR_DELAY_US and FAR_MEMORY_BYTES from the environment when it is first used.
"""

from __future__ import annotations

import contextlib
import ctypes
import types
from collections.abc import Iterator
from pathlib import Path

import torch
from anyop.torch import virtual_device

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "build" / "release" / "tests" / "anyop_far.so"


def start() -> types.ModuleType:
    """torch.far, the module by which torch's Python reaches the device."""
    return virtual_device.start("far", LIBRARY)


class Counts(ctypes.Structure):
    """far_counts of devices/far/far.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_uint32) for name in ("streams", "threads", "allocations")),
        *((name, ctypes.c_uint64) for name in ("launches", "skipped", "copies", "waits")),
    ]
    streams: int
    threads: int
    allocations: int
    launches: int
    skipped: int
    copies: int
    waits: int


def counts(device: int = 0) -> Counts:
    made = Counts(ctypes.sizeof(Counts))
    assert ctypes.CDLL(str(LIBRARY)).far_count(device, ctypes.byref(made)) == 0
    return made


def boxed_counts() -> tuple[int, int]:
    """How many of torch's operators were put on a stream so far, and how many waited for it."""
    return tuple(torch.ops.anyop_device.boxed_counts())


def native(stream: torch.Stream) -> int:
    """The device's own handle of a stream of torch."""
    with stream:
        return int(torch.ops.anyop_device.native_stream(torch.empty(0, device=stream.device)))


@contextlib.contextmanager
def held(stream: torch.Stream) -> Iterator[None]:
    """Work that is on the stream, or comes, does not begin before the end of the block."""
    library, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p(native(stream))
    assert library.far_hold(handle) == 0
    try:
        yield
    finally:
        assert library.far_let_go(handle) == 0


def finish(stream: torch.Stream) -> None:
    """Waits for the stream's work, and takes no error of it."""
    library, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p(native(stream))
    assert library.far_finish(handle) == 0
