# SPDX-License-Identifier: Apache-2.0
"""AscendC kernels on any machine: compiled with this machine's compiler, and checked."""

from anyop.ascend.build import Settings, include_folder
from anyop.ascend.case import Case, File, read
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
    "merged",
    "read",
]
