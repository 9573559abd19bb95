# SPDX-License-Identifier: Apache-2.0
"""Adapters of LoRA by our operators. Imported by vLLM.

A row without an adapter has index -1. vLLM's own code for CPUs takes -1 for the last adapter, as
torch does: beside a row with an adapter, one without gets whatever lies there. Ours skip such rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

import anyop
from anyop.vllm._layers import FLOATS


def _of_adapters(stacked: Tensor) -> Tensor:
    """[adapters, rows, columns] of vLLM's [adapters, 1, rows, columns]."""
    return stacked.squeeze(1) if stacked.dim() == 4 else stacked


def shrink(y: Tensor, x: Tensor, stacked: Tensor, indices: Tensor, scale: float) -> None:
    """y[:, :r] = scale * x @ a^T of each row's adapter; zeros without one."""
    a, x = _of_adapters(stacked), x.view(-1, x.shape[-1])
    dtype = torch.promote_types(x.dtype, a.dtype)
    made = anyop.lora_shrink(x.to(dtype), a.to(dtype), indices, scale)
    y.view(-1, y.shape[-1])[:, : a.shape[1]] = made


def expand(
    y: Tensor, x: Tensor, stacked: Tensor, indices: Tensor, columns: slice, add: bool
) -> None:
    """y[:, columns] += x @ b^T of each row's adapter, as many columns as both have."""
    b, y = _of_adapters(stacked), y.view(-1, y.shape[-1])
    b = b[:, : columns.stop - columns.start].to(y.dtype)
    anyop.lora_expand(x[:, : b.shape[2]].float(), b, indices, y, columns.start, add)


class AnyopPunicaWrapper(PunicaWrapperCPU):  # type: ignore[misc]
    def _apply_shrink(self, y: Tensor, x: Tensor, w_t_all: Tensor, scale: float) -> None:
        if w_t_all.dtype not in FLOATS:
            super()._apply_shrink(y, x, w_t_all, scale)
            return
        shrink(y, x, w_t_all, self.token_lora_indices, scale)

    def _apply_expand(
        self, y: Tensor, x: Tensor, w_t_all: Tensor, y_offset: int, y_slice_size: int,
        add_inputs: bool = True,
    ) -> None:  # fmt: skip
        if y.dtype not in FLOATS:
            super()._apply_expand(y, x, w_t_all, y_offset, y_slice_size, add_inputs)
            return
        columns = slice(y_offset, y_offset + y_slice_size)
        expand(y, x, w_t_all, self.token_lora_indices, columns, add_inputs)

    def add_lora_embedding(
        self, y: Tensor, x: Tensor, lora_b_stacked: Tensor, add_inputs: bool = True, **kwargs: Any
    ) -> None:
        if y.dtype not in FLOATS:
            super().add_lora_embedding(y, x, lora_b_stacked, add_inputs, **kwargs)
            return
        every = slice(0, y.shape[-1])
        expand(y, x, lora_b_stacked, self.token_lora_indices, every, add_inputs)

    def add_lora_logits(
        self, y: Tensor, x: Tensor, lora_a_stacked: Tensor, lora_b_stacked: Tensor, scale: float,
        *, buffer: Tensor | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if y.dtype not in FLOATS:
            super().add_lora_logits(
                y, x, lora_a_stacked, lora_b_stacked, scale, buffer=buffer, **kwargs
            )
            return
        x = x.view(-1, x.shape[-1])
        if buffer is None:
            rank = lora_b_stacked.size(-1)
            buffer = torch.zeros((x.size(0), rank), dtype=torch.float32, device=x.device)
        shrink(buffer, x, lora_a_stacked, self.sampler_indices, scale)
        expand(y, buffer, lora_b_stacked, self.sampler_indices, slice(0, y.shape[-1]), True)
