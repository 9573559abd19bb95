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
    PLATFORM + "register_triton_kernel_overrides": (),
    "vllm.triton_utils.dispatcher:register_kernels": ("overrides",),
    "vllm.v1.sample.sampler:Sampler.greedy_sample": ("logits",),
}  # fmt: skip


def compute_slot_mapping(
    num_tokens: int, max_num_tokens: int, query_start_loc_ptr: Any, positions_ptr: Any,
    block_table_ptr: Any, block_table_stride: int, slot_mapping_ptr: Any,
    KV_CACHE_BLOCK_SIZE: int, TOTAL_CP_WORLD_SIZE: int, TOTAL_CP_RANK: int,
    CP_KV_CACHE_INTERLEAVE_SIZE: int, PAD_ID: int, BLOCK_SIZE: int,
) -> None:  # fmt: skip
    """The kernel lost two parameters, which vLLM's replacement for the CPU still has: it reads
    each argument behind them as another. The names are the kernel's, so that they are passed by
    name.
    """
    import torch

    torch.ops._C.compute_slot_mapping_kernel_impl(
        query_start_loc_ptr, positions_ptr, block_table_ptr, slot_mapping_ptr, KV_CACHE_BLOCK_SIZE
    )


# In place of Triton kernels, over vLLM's own replacements.
KERNELS: dict[str, Callable[..., None]] = {
    "vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel": compute_slot_mapping
}
