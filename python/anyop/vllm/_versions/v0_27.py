# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.27.1: mixtures of experts are one class, which calls `_C.cpu_fused_moe` itself."""

from __future__ import annotations

from collections.abc import Callable

from anyop.vllm._versions.common import CALLS, COMMON, Rows

VERSION = "0.27.1"
PYTHON = (3, 10)
TOUCHED: Rows = {
    **COMMON,
    CALLS + "cpu_fused_moe": (
        "input", "w13", "w2", "w13_bias", "w2_bias", "topk_weights", "topk_ids", "act", "isa",
        "skip_weighted",
    ),
    "vllm.model_executor.layers.fused_moe.cpu_fused_moe:CPUFusedMOE": ("layer",),
}  # fmt: skip
KERNELS: dict[str, Callable[..., None]] = {}
