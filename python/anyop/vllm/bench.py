# SPDX-License-Identifier: Apache-2.0
"""vLLM on anyop beside vLLM on its own CPU kernels, for `anyop bench`."""

from anyop.vllm._bench.command import vllm as command

__all__ = ["command"]
