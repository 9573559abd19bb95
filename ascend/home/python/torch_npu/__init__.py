# SPDX-License-Identifier: Apache-2.0
"""Of torch_npu, what packages of operators build and import with: its build helper, its headers,
and the name "npu" for torch's device in this process, whatever backend that device has.
"""

from typing import Any

import torch

from torch_npu import utils

__version__ = torch.__version__
__all__ = ["utils"]


def _device() -> str:
    name: str = torch._C._get_privateuse1_backend_name()
    if not hasattr(torch, name):
        raise RuntimeError(
            f"torch_npu: torch has no device in this process (its name would be {name}). "
            "Start anyop's device for torch first."
        )
    return name


def _npu(self: torch.Tensor, device: Any = None, non_blocking: bool = False) -> torch.Tensor:
    index = 0 if device is None else torch.device(_device(), device).index
    return self.to(torch.device(_device(), index), non_blocking=non_blocking)


class _Npu:
    """torch.npu: the module of torch's device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(torch, _device()), name)


if torch._C._get_privateuse1_backend_name() != "npu":
    torch.npu = _Npu()  # type: ignore[attr-defined]
    torch.Tensor.npu = _npu  # type: ignore[attr-defined]
    torch.nn.Module.npu = lambda self: self.to(_device())  # type: ignore[assignment]
