# SPDX-License-Identifier: Apache-2.0
"""Of torch_npu, what packages of operators build and run with: its build helper, its headers, and
torch's device under the name "npu". The device is the one that torch has in this process; if it has
none, the virtual NPU becomes it.
"""

import functools
from typing import Any

import torch
from anyop import ascend
from anyop.ascend import streams

from torch_npu import utils

__version__ = torch.__version__
__all__ = ["npu", "utils"]


@functools.cache
def _started() -> str:
    """The name of torch's device, on whose streams launches of packages are put from now on."""
    name: str = torch._C._get_privateuse1_backend_name()
    if not hasattr(torch, name):
        ascend.start_torch()
        name = torch._C._get_privateuse1_backend_name()
    streams.use_device(name)
    return name


def _npu(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Tensor.npu, Module.npu: to the current device, one with a number, or "npu:1"."""
    index = device if isinstance(device, int) else None
    if index is None and device is not None:
        index = torch.device(str(device).replace("npu", _started())).index
    to = torch.device(_started()) if index is None else torch.device(_started(), index)
    return self.to(to, non_blocking=non_blocking)


class _Npu:
    """torch.npu: the module of torch's device. A package that is built asks for none."""

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(torch, _started()), name)


npu = _Npu()
if torch._C._get_privateuse1_backend_name() != "npu":
    torch.npu = npu  # type: ignore[attr-defined]
    torch.Tensor.npu = _npu  # type: ignore[attr-defined]
    torch.nn.Module.npu = _npu  # type: ignore[assignment]
