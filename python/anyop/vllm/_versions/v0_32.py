# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.32.0: sampling calls `_C` for every token, and Triton's kernels have a dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyop.vllm._versions import v0_28
from anyop.vllm._versions.common import CALLS, PLATFORM, Rows

VERSION = "0.32.0"
PYTHON = (3, 11)
TOUCHED: Rows = {
    **v0_28.TOUCHED,
    CALLS + "cpu_fused_moe": (
        "out", "input", "w13", "w2", "w13_bias", "w2_bias", "topk_weights", "topk_ids", "act",
        "isa", "skip_weighted",
    ),
    "vllm.v1.attention.backends.registry:AttentionBackendEnum.CPU_MLA": None,
    PLATFORM + "register_triton_kernel_overrides": (),
    "vllm.triton_utils.dispatcher:register_kernels": ("overrides",),
    "vllm.v1.sample.sampler:Sampler.greedy_sample": ("logits",),
}  # fmt: skip


def slots(*arguments: Any) -> None:
    """The kernel lost two parameters, which vLLM's replacement for the CPU still has: it reads
    each argument behind them as another. Arguments come in the kernel's order.
    """
    import torch

    _, _, starts, positions, blocks, _, written, block_size, *_ = arguments
    torch.ops._C.compute_slot_mapping_kernel_impl(starts, positions, blocks, written, block_size)


METHODS = v0_28.METHODS
# In place of Triton kernels, over vLLM's own replacements.
KERNELS: dict[str, Callable[..., None]] = {
    "vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel": slots
}
