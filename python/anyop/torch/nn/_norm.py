# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from anyop.torch.nn._operators import operators
from anyop.torch.nn._script import Unscripted

_ops = operators("RMSNorm")


class RMSNorm(Unscripted):
    """y = x / sqrt(mean(x^2) + eps) * (weight + weight_offset), over the last dimension.

    weight_offset  1 for models that store their gains less one (Gemma)

    With a residual the two are added first: `norm(x, residual)` returns `(y, sum)`, in one pass.
    """

    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        *,
        weight_offset: float = 0.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size, self.eps, self.weight_offset = hidden_size, eps, weight_offset
        weight = torch.empty(hidden_size, device=device, dtype=dtype)
        self.weight = torch.nn.Parameter(weight) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every gain to one."""
        if self.weight is not None:
            torch.nn.init.constant_(self.weight, 1 - self.weight_offset)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        """[..., hidden_size] -> the same; with a residual, (y, x + residual)."""
        if residual is None:
            return _ops.norm(x, self.weight, self.eps, self.weight_offset)
        return _ops.add_norm(x, residual, self.weight, self.eps, self.weight_offset)

    def extra_repr(self) -> str:
        offset = f", weight_offset={self.weight_offset}" if self.weight_offset else ""
        affine = "" if self.weight is not None else ", elementwise_affine=False"
        return f"{self.hidden_size}, eps={self.eps}{affine}{offset}"
