# SPDX-License-Identifier: Apache-2.0
"""Tensors over memory of the runtime, for functions of Python."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack


def lent(capsule: Any) -> Any:
    """A tensor over the memory of a DLPack capsule, which may be written in every mode.

    A part of a program gets the same tensor in later calls. One made within inference mode would
    be an inference tensor, and torch refuses to write such a tensor outside of that mode.
    """
    if not torch.is_inference_mode_enabled():
        return from_dlpack(capsule)
    with torch.inference_mode(False):
        return from_dlpack(capsule)
