# SPDX-License-Identifier: Apache-2.0
"""Numbers of a call that are none of Python's: tensors and NumPy's."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad


def advice(tensor: torch.Tensor) -> str:
    """What to do with a tensor that must not become a number; "" for one that may."""
    if _needs_gradient(tensor):
        return "A number has no gradient: try detach() of it, or a number of Python"
    if _is_traced(tensor):
        return "The program that is made would keep the number of now. Try a number of Python"
    return ""


def _needs_gradient(tensor: torch.Tensor) -> bool:
    if tensor.requires_grad and torch.is_grad_enabled():
        return True
    if forward_ad._current_level < 0:  # outside of forward-mode differentiation
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def _is_traced(tensor: Any) -> bool:
    """Whether a program is being made that would call this again.

    Imports nothing: where torch's module is not loaded, nothing is traced by it.
    """
    fakes: Any = sys.modules.get("torch._subclasses.fake_tensor")
    if fakes is not None and isinstance(tensor, fakes.FakeTensor):
        return True
    tracing: Any = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return tracing is not None and tracing.get_proxy_mode() is not None


# torch.compile traces the functions below. It takes NumPy's numbers for tensors, which torch's
# operators refuse where a number belongs; so they become numbers of Python.


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, (np.ndarray, torch.Tensor)) else value


def _int(value: Any) -> Any:
    return int(value) if isinstance(value, (np.ndarray, torch.Tensor)) else value


def _bool(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype is not torch.bool:
        return value
    return bool(value) if isinstance(value, (np.ndarray, torch.Tensor)) else value


def _floats(value: Any) -> Any:
    return [_float(v) for v in value] if isinstance(value, (list, tuple)) else value


def _ints(value: Any) -> Any:
    return [_int(v) for v in value] if isinstance(value, (list, tuple)) else value


MAKERS = {"float": _float, "int": _int, "bool": _bool, "floats": _floats, "ints": _ints}
