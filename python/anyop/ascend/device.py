# SPDX-License-Identifier: Apache-2.0
"""The virtual NPU, for anyop and for torch."""

from __future__ import annotations

import types
from pathlib import Path

import anyop
from anyop import _anyop
from anyop._packages import device_library

WORD = "ascend"


def load() -> list[anyop.DeviceInfo]:
    """Loads the virtual NPU, unless it is loaded; gives its devices, "ascend:0" and so on.

    NotAvailable: its library is not there, or a variable (ANYOP_ASCEND and those that begin so)
    has a value that it does not know.
    """
    _file()
    return [d for d in anyop.devices() if d.device.partition(":")[0] == WORD]


def start_torch() -> types.ModuleType:
    """Makes the virtual NPU torch's device "ascend", for the rest of the process; gives
    torch.ascend.

        anyop.ascend.start_torch()
        x = torch.ones(2, device="ascend") * 3
        torch.ascend.synchronize()

    torch's operators run there with their CPU kernels, anyop's with those that the device runs.
    What it needs is built once per user, which takes a C++ compiler and about half a minute.
    NotAvailable: as load says; torch is not there, or has another backend of this kind.
    """
    from anyop.torch import virtual_device

    return virtual_device.start(WORD, _file())


def _file() -> Path:
    """The library that the device came from. Loads it."""
    loaded = [row[1] for row in _anyop.device_libraries() if row[0] == WORD]
    # Once more brings kernels beside libraries that could not be loaded before, or says why not.
    anyop.load(loaded[0] if loaded else device_library())
    file, count, why = next(row[1:] for row in _anyop.device_libraries() if row[0] == WORD)
    if not count:
        raise _anyop.NotAvailable(f"{WORD}: {why}")
    return Path(file)
