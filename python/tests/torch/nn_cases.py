# SPDX-License-Identifier: Apache-2.0
"""What the tests of modules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

T = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def grads(f: Callable[..., Any], *tensors: Any) -> list[Any]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    y = f(*leaves)
    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    return [y, *torch.autograd.grad((y * direction).sum(), leaves)]


def assert_same(f: Callable[..., Any], g: Callable[..., Any], *tensors: Any) -> None:
    """Values and gradients agree."""
    for ours, theirs in zip(grads(f, *tensors), grads(g, *tensors), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
