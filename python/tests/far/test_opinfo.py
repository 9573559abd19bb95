# SPDX-License-Identifier: Apache-2.0
"""torch's own table of operators (OpInfo) on the device: each entry as on the CPU. The virtual NPU
beneath torch_npu has the same kernels (python/tests/npu/opinfo.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import module_device
import opinfo_device
import pytest
import torch

EACH = 20  # of a slice
DEVICE = "far"
EXCEPTIONS = {**opinfo_device.EXCEPTIONS, "to_sparse": opinfo_device.SPARSE}


def differing(entries: Sequence[Any], samples: int) -> dict[str, str]:
    """What went wrong, by the entry's name."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in entries:
            torch.manual_seed(0)
            try:
                opinfo_device.compare(op, samples, DEVICE)
                torch.accelerator.synchronize()
            except Exception as error:
                found[opinfo_device.name_of(op)] = f"{type(error).__name__}: {error}"[:300]
    return found


def test_a_slice_of_the_table_agrees_with_the_cpu() -> None:
    found = differing(opinfo_device.entries()[::EACH], 1)
    assert {name: why for name, why in found.items() if name not in EXCEPTIONS} == {}


@pytest.mark.exhaustive
def test_all_of_the_table_agrees_with_the_cpu() -> None:
    assert differing(opinfo_device.entries(), 3).keys() == EXCEPTIONS.keys()


def modules_that_differ(entries: Sequence[Any]) -> dict[str, str]:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in entries:
            try:
                module_device.compare(info, DEVICE, True)
            except Exception as error:
                found[info.name] = f"{type(error).__name__}: {error}"[:300]
    return found


def test_recurrent_networks_compute_what_the_cpu_computes() -> None:
    entries = [i for i in module_device.entries() if any(w in i.name for w in ("LSTM", "GRU"))]
    assert len(entries) == 4 and modules_that_differ(entries) == {}


@pytest.mark.exhaustive
def test_modules_compute_what_the_cpu_computes() -> None:
    assert modules_that_differ(module_device.entries()) == {}
