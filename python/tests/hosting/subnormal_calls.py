# SPDX-License-Identifier: Apache-2.0
"""Calls whose results show whether a thread takes subnormal numbers for zero, and such threads."""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import numpy as np

# Enough of them for several threads, some in each place of a vector.
TINY = np.tile(np.float32([1e-40, 3e-40, 2e-39, -1e-41, 1e-45, 0, -3e-39]), (512, 97))
SCALE = np.float32([4e-39])

# Of x and a scale, which are tensors of the host's, and the host's f64.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, s, f64: anyop.add(x, x),
    "mul": lambda x, s, f64: anyop.mul(x, x),
    "argmax": lambda x, s, f64: anyop.argmax(x),
    "top_k": lambda x, s, f64: anyop.top_k(x, 5),
    "cast": lambda x, s, f64: anyop.cast(x, f64),
    "relu2": lambda x, s, f64: anyop.relu2(x),
    "sigmoid": lambda x, s, f64: anyop.sigmoid(x),
    "quantize_int8": lambda x, s, f64: anyop.quantize_int8(x, s),
}


def _all(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple | list) else [made]


WANTED = {name: _all(call(TINY, SCALE, np.float64)) for name, call in CALLS.items()}


def check(name: str, made: Any, to_numpy: Callable[[Any], Any] = np.asarray) -> None:
    """The results of CALLS[name] on a host are those of NumPy arrays, bit for bit."""
    for one, wanted in zip(_all(made), WANTED[name], strict=True):
        got = to_numpy(one)
        wrong = got != wanted
        assert not wrong.any(), (name, got[wrong][:4], wanted[wrong][:4])
        assert np.array_equal(np.signbit(got), np.signbit(wanted)), name


# Of the C library's fenv_t: the bytes before the control register, and its bits that flush.
_FLUSHING = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}


@contextlib.contextmanager
def flushing() -> Iterator[None]:
    """This thread takes subnormal numbers for zero, as after torch.set_flush_denormal(True)."""
    libm = ctypes.CDLL("libm.so.6")
    place, bits = _FLUSHING[platform.machine()]
    before, changed = (ctypes.c_uint32 * 16)(), (ctypes.c_uint32 * 16)()
    libm.fegetenv(before)
    libm.fegetenv(changed)
    changed[place // 4] |= bits
    libm.fesetenv(changed)
    try:
        assert np.float32(1e-40) * np.float32(2) == 0
        yield
        assert np.float32(1e-40) * np.float32(2) == 0, "a call has changed the mode of its thread"
    finally:
        libm.fesetenv(before)
