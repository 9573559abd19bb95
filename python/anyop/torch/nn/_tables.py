# SPDX-License-Identifier: Apache-2.0
"""Tables that modules read and do not write: one in memory for all modules that need the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


class Tables:
    """A table lives as long as a module that has it."""

    def __init__(self) -> None:
        self._made: weakref.WeakValueDictionary[Any, torch.Tensor] = weakref.WeakValueDictionary()

    def get(self, key: Any, device: torch.device, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The table of this key on the device; `make` makes it where none is in use."""
        # What is made within a mode may be a fake tensor, which modules outside must not get.
        if _get_current_dispatch_mode_stack():
            return make()
        # Autograd saves the table for backward, which it refuses for inference tensors.
        with torch.inference_mode(False), torch.no_grad():
            key = key, torch.empty(0, device=device).device  # "cuda" is "cuda:0"
            known = self._made.get(key)
            if known is None or known._version:  # whoever wrote the table keeps it
                known = self._made[key] = make()
            return known
