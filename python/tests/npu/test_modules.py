# SPDX-License-Identifier: Apache-2.0
"""torch's own table of modules, forward and backward, as on the CPU."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))
import module_device  # noqa: E402


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_modules_compute_what_the_cpu_computes(training: bool) -> None:
    wrong = {}
    for info in module_device.entries():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module_device.compare(info, "npu", training)
            except Exception as error:
                wrong[info.name] = f"{type(error).__name__}: {error}"[:300]
    assert wrong == {}
