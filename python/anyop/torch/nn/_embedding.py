# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from anyop.torch.nn._operators import operators
from anyop.torch.nn._script import Unscripted

_ops = operators("Embedding")


class Embedding(Unscripted, torch.nn.Embedding):
    """Rows of a table by number; a negative number gives a row of zeros, one beyond is an error.

    padding_idx  a row that gets no gradient
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, device=device, dtype=dtype)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[...] -> [..., embedding_dim]"""
        padding = -1 if self.padding_idx is None else self.padding_idx
        y: torch.Tensor = _ops.embedding(ids, self.weight, padding)
        return y
