# SPDX-License-Identifier: Apache-2.0
"""torch with a device of its own, which lasts as long as the process: these tests run alone."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SETTINGS = ("FAR_SEED", "FAR_DELAY_US", "FAR_MEMORY_BYTES")  # what the device reads at its start
os.environ.setdefault("FAR_MEMORY_BYTES", str(1 << 28))
if not importlib.util.find_spec("torch"):
    collect_ignore_glob = ["*"]
else:
    sys.path.insert(1, str(Path(__file__).parents[1] / "torch"))  # generated.py
    import far_torch

    if far_torch.LIBRARY.is_file():
        far_torch.start()
    else:
        collect_ignore_glob = ["*"]


def pytest_report_header() -> str:
    if "far_torch" not in sys.modules or not far_torch.LIBRARY.is_file():
        return "far: nothing is tested without torch and build/release/tests/anyop_far.so"
    return "far: " + " ".join(f"{name}={os.environ.get(name, '')}" for name in SETTINGS)


@pytest.fixture(autouse=True)
def ends_without_late_error() -> Iterator[None]:
    """What a test put on streams is over, and no error is left for the next one."""
    yield
    import torch

    for device in range(torch.accelerator.device_count()):
        torch.accelerator.synchronize(device)
