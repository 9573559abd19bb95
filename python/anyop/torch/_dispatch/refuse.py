# SPDX-License-Identifier: Apache-2.0
"""What torch itself refuses to hand to an operator, or hands to nobody: said in our words."""

from __future__ import annotations

from typing import Any

from torch._library import simple_registry
from torch.nested._internal.nested_tensor import NestedTensor

from anyop import _anyop
from anyop.torch._dispatch import texts
from anyop.torch._dispatch.operators import Operator


def register(op: Operator, fragment: Any) -> None:
    """Registers the refusals of every overload."""
    for overload, schema in op.schemas.items():
        if not schema:
            continue
        name = op.torch_name(overload)
        rules = simple_registry.singleton.find(name).torch_dispatch_rules
        rules.register(NestedTensor, _Nested(op, overload))
        if overload == "out" or (not overload and op.written):
            fragment.impl(name, "FuncTorchBatched", _Batched(op, overload))


class _Nested:
    """Refuses jagged nested tensors: they are a class of Python, which answers before any kernel
    and knows torch's own operators only. Kernels refuse the other nested tensors."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs or {})
        tensors = [(name, t) for _, name, t in op.inputs(call)]
        tensors += op.written_tensors(self.overload, call)
        name = next((name for name, t in tensors if t.is_nested), "a tensor")
        raise _anyop.InvalidArgument(texts.wrong_layout(op, name, "nested"))


class _Batched:
    """Refuses torch.func.vmap of a call that writes into its arguments. torch's own fallback for
    calls without a rule takes none of them, and its text does not name the argument."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        names = ", ".join(name for name, _ in op.written_tensors(self.overload, call))
        advice = "without out=" if self.overload else "in a loop over the examples"
        raise _anyop.Unsupported(
            f"{op.display_name}: {names} is written, but torch.func.vmap batches calls that return "
            f"new tensors, since all examples would write one memory. Try the call {advice}."
        )
