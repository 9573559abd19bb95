# SPDX-License-Identifier: Apache-2.0
"""The same names as vLLM's compiled library has, by anyop, in an environment with vLLM's source."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

# Files beside the program, server.py, have names of packages: `import vllm` would find vllm.py.
PROGRAM = Path(sys.argv[0]).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != PROGRAM]

import numpy as np  # noqa: E402
import torch  # noqa: E402

import anyop  # noqa: E402


class Side:
    """torch, F: the modules. ops: vLLM's operators."""

    def __init__(self) -> None:
        from anyop.vllm import _dropin

        self.torch, self.F = torch, torch.nn.functional
        _dropin.load(importlib.metadata.version("vllm").partition("+")[0])
        self.ops: Any = torch.ops._C
        torch.set_grad_enabled(False)

    def about(self) -> dict[str, str]:
        return {name: importlib.metadata.version(name) for name in ("vllm", "anyop", "torch")}

    def set_threads(self, count: int) -> None:
        torch.set_num_threads(count)
        anyop.set_num_threads(count)

    def to_numpy(self, value: Any) -> np.ndarray:
        array: np.ndarray = value.double().numpy()
        return array
