# SPDX-License-Identifier: Apache-2.0
"""Of the package my_ops: what vLLM runs on its operators."""

import anyop.vllm
import my_ops


def register() -> None:
    anyop.vllm.replace("SiluAndMul", my_ops.my_silu)
