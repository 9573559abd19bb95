# SPDX-License-Identifier: Apache-2.0
"""torch.utils.flop_counter counts what an operator's `.flops` says of a call."""

from __future__ import annotations

import sys
from typing import Any

import torch

from anyop import _anyop
from anyop.hosting import when_imported
from anyop.torch._dispatch.operators import Operator

_pending: list[Operator] = []


def count(op: Operator) -> None:
    """Takes effect when torch's counter is imported: at once if it is already."""
    _pending.append(op)
    if len(_pending) == 1:
        when_imported("torch.utils.flop_counter", _count_pending)


def _count_pending() -> None:
    registry = sys.modules["torch.utils.flop_counter"].flop_registry
    while _pending:
        op = _pending.pop()
        if not op.has_flops:
            continue
        # The counter knows packets: `op` and `op.out` are one, `op_` is another.
        for overload in ("", "_") if op.has_in_place else ("",):
            registry[op.torch_op(overload)._overloadpacket] = _Formula(op, overload)


class _Formula:
    """The flops of one call, which torch has just made."""

    _get_raw = True  # the counter passes the tensors themselves, in place of their shapes

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
        from anyop.torch._dispatch.fake import without_data

        op = self.op
        overload = "out" if op.out_names[:1] and op.out_names[0] in kwargs else self.overload
        call = op.bind(overload, args, kwargs)
        arguments, given = _hinted(without_data(op, call, op.declined(call)))
        return int(_anyop.flops_memory(op.name, arguments, given))


_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _hint(value: Any) -> Any:
    """The number that a symbolic number was traced with; other values as they are."""
    return value.node.hint if isinstance(value, _SYMBOLS) else value


def _hinted(described: Any) -> Any:
    """Described tensors whose sizes are numbers."""
    if isinstance(described, tuple | list):
        return type(described)(_hinted(d) for d in described)
    return _hint(described)
