# SPDX-License-Identifier: Apache-2.0
"""torch_npu on the virtual NPU: in an environment of `anyop npu install`, with ANYOP_NPU=1."""

from __future__ import annotations

import os
import sys

if not (os.environ.get("ANYOP_NPU") and "_anyop_npu" in sys.modules):
    collect_ignore_glob = ["*"]


def pytest_report_header() -> str:
    if "_anyop_npu" in sys.modules and os.environ.get("ANYOP_NPU"):
        return "npu: torch_npu on the virtual NPU"
    where = "the Python of an environment of `anyop npu install`, and ANYOP_NPU=1"
    return f"npu: nothing is tested without {where}"
