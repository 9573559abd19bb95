# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU platform on anyop's operators: no compiled kernel of vLLM's is needed.

Where anyop is installed beside vLLM, vLLM finds it by itself (two entry points, `_plugin.py`) and
every engine of that environment runs so, in each of its processes. `anyop vllm install FOLDER`
makes such an environment; docs/vllm.md starts there.

    anyop.vllm.replace("SiluAndMul", my_ops.my_silu)   # a layer of vLLM's by an operator
    anyop.vllm.explain(llm)                            # what runs, and why
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Report", "explain", "replace", "status"]

# Found when they are asked for: what they need imports torch, and vLLM.
_HOMES = {
    "Report": "_explain",
    "explain": "_explain",
    "replace": "_classes",
    "status": "_versions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anyop.vllm' has no attribute '{name}'")
    return getattr(importlib.import_module(f"anyop.vllm.{_HOMES[name]}"), name)
