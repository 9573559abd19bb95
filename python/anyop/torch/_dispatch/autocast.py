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


def groups(op: Operator) -> list[list[int]]:
    """Parameters of one dtype variable: read-only tensors, at least two."""
    form = op.contract["forms"][0]
    by_variable: dict[int, list[int]] = {}
    refused = set()
    for i, (param, own) in enumerate(zip(op.params, form["params"], strict=True)):
        if param["kind"] not in ("tensor", "tensors") or "var" not in own["dtypes"]:
            continue
        variable = own["dtypes"]["var"]
        by_variable.setdefault(variable, []).append(i)
        if param.get("mut") or param["kind"] == "tensors":
            refused.add(variable)
    return [g for v, g in by_variable.items() if len(g) > 1 and v not in refused]


class Autocast:
    """What the functional overload does while autocast is on."""

    def __init__(self, op: Operator) -> None:
        self.op, self.groups = op, groups(op)

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind("", args, kwargs)
        to = torch.get_autocast_dtype("cpu")
        for group in self.groups:
            tensors = [call.values[i] for i in group]
            found = {t.dtype for t in tensors if t is not None and t.dtype in _FLOATS}
            for i in group if len(found) > 1 else ():
                t = call.values[i]
                if t is not None and t.dtype in _FLOATS:
                    call.values[i] = t.to(to)
        mask = () if call.mask is None else (call.mask,)
        with _C._ExcludeDispatchKeyGuard(_KEYS):
            return op.torch_op("")(*call.values, *mask)
