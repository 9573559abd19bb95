# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's DTensor: how each operator may be divided between devices.

Along the dimensions of `...` every device computes its own rows; in anything else a call gets whole
tensors, which DTensor gathers. What writes into its arguments has no rule: a gathered copy would be
written instead.
"""

from __future__ import annotations

from typing import Any

from anyop import symbolic
from anyop.hosting import shapes, splitting, when_imported
from anyop.torch._dispatch.operators import NAMES, Operator

_pending: list[Operator] = []


def divide(op: Operator) -> None:
    """Takes effect when torch's module of DTensor is imported: at once if it is already."""
    _pending.append(op)
    if len(_pending) == 1:
        when_imported("torch.distributed.tensor", _divide_pending)


def _divide_pending() -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor.experimental import register_sharding

    known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    while _pending:
        op = _pending.pop()
        if op.written:
            continue
        overload = op.torch_op("")
        register_sharding(overload)(_Rule(op))
        # DTensor keeps a rule's answer for calls that look alike to it. By itself it compares
        # integers only, but words and masks decide too: all arguments from the first on count.
        known[overload] = RuntimeSchemaInfo(0, needs_pytree=True)


class _Rule:
    """The ways to divide a call, as torch.distributed.tensor.experimental wants them: placements of
    the results and of the tensors among the arguments.
    """

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.__name__ = op.short_name

    def __call__(self, *args: Any, **kwargs: Any) -> list[tuple[list[Any], list[Any]]]:
        from torch.distributed.tensor import Partial, Replicate, Shard

        op = self.op
        call = op.bind("", args, kwargs)
        computed = [r for r, is_declined in enumerate(op.declined(call)) if not is_declined]
        found = splitting.split(op, self.example(call.values), computed)

        def ways(where: Any, sums: Any) -> tuple[list[Any], list[Any]]:
            results: list[Any] = [None] * len(op.results)
            for r, has_rows in zip(computed, found.results, strict=True):
                results[r] = where if has_rows else sums
            return results, [where if has_rows else Replicate() for has_rows in found.inputs]

        return [
            ways(Replicate(), Replicate()),
            *(ways(Shard(d), Partial()) for d in range(found.rank)),
        ]

    def example(self, values: list[Any]) -> list[Any]:
        """The arguments, with a type for each description of a tensor."""

        def typed(name: str, spec: Any) -> symbolic.TensorType:
            meta = spec.tensor_meta
            dtype = NAMES.name_of(self.op, name, meta.dtype, meta.shape)
            return symbolic.TensorType(dtype, tuple(meta.shape))

        return shapes.describe(self.op, values, typed, NAMES)
