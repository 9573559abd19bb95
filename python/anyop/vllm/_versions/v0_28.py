# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.28.0: mixtures of experts are expert classes, and MLA has a backend on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyop.vllm import _quantized
from anyop.vllm._versions import v0_27
from anyop.vllm._versions.common import Rows

VERSION = "0.28.0"
PYTHON = (3, 10)
TOUCHED: Rows = {
    **{name: row for name, row in v0_27.TOUCHED.items() if "CPUFusedMOE" not in name},
    "vllm.model_executor.layers.fused_moe.experts.cpu_moe:CPUExpertsFp8": None,
    "vllm.v1.attention.backends.mla.cpu_mla": None,
}
KERNELS: dict[str, Callable[..., None]] = {}
METHODS: dict[str, Callable[[Any], Any]] = {**_quantized.METHODS}
