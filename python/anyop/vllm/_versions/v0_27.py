# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.27.1: mixtures of experts are one class, which calls `_C.cpu_fused_moe` itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyop.vllm import _quantized
from anyop.vllm._versions.common import CALLS, COMMON, Rows

EXPERTS = "vllm.model_executor.layers.fused_moe.cpu_fused_moe:CPUFusedMOE"
VERSION = "0.27.1"
PYTHON = (3, 10)
TOUCHED: Rows = {
    **COMMON,
    CALLS + "cpu_fused_moe": (
        "input", "w13", "w2", "w13_bias", "w2_bias", "topk_weights", "topk_ids", "act", "isa",
        "skip_weighted",
    ),
    EXPERTS: ("layer",),
    EXPERTS + ".check_grouped_gemm": ("self", "layer"),
}  # fmt: skip
KERNELS: dict[str, Callable[..., None]] = {}


def every_size(theirs: Callable[..., tuple[bool, str]]) -> Callable[..., tuple[bool, str]]:
    """Whether `_C.cpu_fused_moe` computes a layer, and for which instructions: where it is ours, it
    takes every size and dtype. vLLM's own loops over experts in torch for some, or refuses them on
    processors with AMX.
    """

    def check_grouped_gemm(self: Any, layer: Any) -> tuple[bool, str]:
        from anyop.vllm import _dropin

        return (True, "vec") if "cpu_fused_moe" in _dropin.counters() else theirs(self, layer)

    return check_grouped_gemm


METHODS: dict[str, Callable[[Any], Any]] = {
    **_quantized.METHODS,
    EXPERTS + ".check_grouped_gemm": every_size,
}
