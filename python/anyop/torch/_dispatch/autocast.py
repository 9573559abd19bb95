# SPDX-License-Identifier: Apache-2.0
"""The rule under torch.autocast: operators run in the dtypes given; only float tensors that must
share a dtype and do not are cast, to autocast's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _C

from anyop.torch._dispatch.operators import Operator

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_KEYS = _C.DispatchKeySet(_C.DispatchKey.AutocastCPU)


class Autocast:
    """The kernel of the functional overload while autocast is on."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind("", args, kwargs)
        to = torch.get_autocast_dtype("cpu")
        for group in op.dtype_groups:
            tensors = [call.values[i] for i in group]
            found = {t.dtype for t in tensors if t is not None and t.dtype in _FLOATS}
            for i in group if len(found) > 1 else ():
                t = call.values[i]
                if t is not None and t.dtype in _FLOATS:
                    call.values[i] = t.to(to)
        with _C._ExcludeDispatchKeyGuard(_KEYS):  # else torch calls this kernel again
            return op.torch_op("")(*call.arguments)
