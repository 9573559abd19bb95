# SPDX-License-Identifier: Apache-2.0
"""Where the launches of packages go: kernel<<<blocks, l2, stream>>>(...) of their host code."""

from __future__ import annotations

from pathlib import Path

from anyop import _anyop
from anyop.ascend.native import Runtime


def use_device(word: str) -> None:
    """Launches that name a stream are put on it, which is one of this device, from now on.

    Raises NotAvailable where no library of such a device is loaded.
    """
    for known, file, *_ in _anyop.device_libraries():
        if known == word:
            Runtime().use_device(Path(file))
            return
    raise _anyop.NotAvailable(
        f"No library of a device '{word}' is loaded, on whose streams packages could launch. "
        "Try anyop.load with its file."
    )
