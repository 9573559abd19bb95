# SPDX-License-Identifier: Apache-2.0
"""In compiled programs, what an operator returns of its arguments is that argument.

torch.compile and torch.export replace writes by new values. torch 2.13 makes the tensor that an
in-place or out variant returns a new one there, so that a later write to it, or to the argument,
is lost in the other. Here such a call returns the argument, which has the new value by then.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from anyop.hosting import when_imported
from anyop.torch._dispatch import inductor


def start() -> None:
    """Takes effect when torch's functionalization is imported."""
    when_imported("torch._higher_order_ops.auto_functionalize", _return_arguments)


def _return_arguments() -> None:
    module = sys.modules["torch._higher_order_ops.auto_functionalize"]
    plain = getattr(module, "do_auto_functionalize_v2", None)
    if plain is None:  # a torch that functionalizes writes in another way
        return

    def functionalize(mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
        made = plain(mode, op, args, kwargs)
        argument = _returned(op._schema) if inductor.is_ours(op) else None
        if argument is None:
            return made
        place, name = argument
        return args[place] if place < len(args) else kwargs[name]

    module.do_auto_functionalize_v2 = functionalize  # type: ignore[attr-defined]


def _returned(schema: torch._C.FunctionSchema) -> tuple[int, str] | None:
    """The argument that an operator of one result returns."""
    alias = schema.returns[0].alias_info if len(schema.returns) == 1 else None
    if alias is None:
        return None
    for i, argument in enumerate(schema.arguments):
        own = argument.alias_info
        if own is not None and own.before_set == alias.before_set:
            return i, argument.name
    return None
