# SPDX-License-Identifier: Apache-2.0
"""AscendC kernels on any machine: compiled with this machine's compiler, and checked. And a device
to run programs on: the virtual NPU.
"""

from anyop.ascend.build import Settings, include_folder
from anyop.ascend.case import Case, File, read
from anyop.ascend.device import load, start_torch
from anyop.ascend.runs import Finding, Run, Try, merged
from anyop.ascend.source import Source

__all__ = [
    "Case",
    "File",
    "Finding",
    "Run",
    "Settings",
    "Source",
    "Try",
    "include_folder",
    "load",
    "merged",
    "read",
    "start_torch",
]
