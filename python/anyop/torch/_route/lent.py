# SPDX-License-Identifier: Apache-2.0
"""Tensors over memory of the runtime, for functions of Python."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack


def lent(capsule: Any) -> Any:
    """A tensor that may be written in every mode: it may be asked for again when another is on."""
    if not torch.is_inference_mode_enabled():
        return from_dlpack(capsule)
    with torch.inference_mode(False):
        return from_dlpack(capsule)
