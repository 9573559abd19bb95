# SPDX-License-Identifier: Apache-2.0
"""Results without data: the fakes of all operators, from their signatures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from anyop import _anyop, symbolic
from anyop.hosting import shapes
from anyop.torch._dispatch.operators import (
    NAMES,
    Call,
    Operator,
    described,
    dtype_name,
)


class _TorchHost(symbolic.Host):
    """torch's symbolic integers. Nothing here asks for a value: that would fix it by a guard."""

    binary = {**symbolic.Host.binary, "min": torch.sym_min, "max": torch.sym_max}

    def negate(self, a: Any) -> Any:
        return torch.sym_not(a)

    def same(self, a: Any, b: Any) -> bool:
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return bool(statically_known_true(a == b))


class Fake:
    """The fake of one overload of an operator; `argument.device` decides where results are."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        device = self.device(call)
        declined = op.declined(call)
        types = self.types(call, device, declined)
        made: list[Any] = []
        for (dtype, shape), is_declined in zip(types, declined, strict=True):
            if self.overload or is_declined:
                made.append(None)
            else:
                made.append(torch.empty(shape, dtype=NAMES.dtype(dtype), device=device))
        return op.returned(self.overload, made, call.outs)

    def device(self, call: Call) -> torch.device:
        op = self.op
        tensors = [(name, t) for i, name, t in op.inputs(call) if i not in op.planned]
        if self.overload == "out":
            tensors += zip(op.out_names, call.outs, strict=True)
        if not tensors:
            return torch.device("cpu")
        first, device = tensors[0][0], tensors[0][1].device
        for name, t in tensors:
            if t.device != device:
                raise _anyop.InvalidArgument(
                    f"{self.op.display_name}: {name} is on {t.device}, but must be on {device} "
                    f"because {first} is. Try {name}.to('{device}')."
                )
        # A program on the device meta has its planned tensors there too: nobody reads them.
        planned = ("cpu", device.type) if device.type == "meta" else ("cpu",)
        for i, name, t in op.inputs(call):
            if i in op.planned and t.device.type not in planned:
                raise _anyop.InvalidArgument(
                    f"{op.display_name}: {name} is on {t.device}, but must be on cpu, because it "
                    "is planned: the host reads it before the work begins. Try a copy on the CPU."
                )
        return device

    def is_symbolic(self, call: Call) -> bool:
        return any(_has_symbols(v) for v in (*call.values, *call.outs))

    def types(
        self, call: Call, device: torch.device, declined: list[bool]
    ) -> Sequence[tuple[str, tuple[Any, ...]]]:
        if self.is_symbolic(call):
            return self.infer_symbolic(call)
        try:
            return self.infer(call, declined)
        except _anyop.Unsupported:  # no kernel of the CPU; all of them may be the device's
            if device.type == "cpu":
                raise
            return self.infer_symbolic(call)

    def infer(self, call: Call, declined: list[bool]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Results by the core's own checks, so that mistakes are told in its words."""
        return _anyop.plan_memory(self.op.name, *without_data(self.op, call, declined))

    def infer_symbolic(self, call: Call) -> list[tuple[str, tuple[Any, ...]]]:
        op = self.op

        def typed(text: str, t: torch.Tensor) -> symbolic.TensorType:
            return symbolic.TensorType(dtype_name(op, text, t), tuple(t.shape))

        arguments = shapes.describe(op, call.values, typed, NAMES)
        inference = symbolic.infer(op.name, arguments, _TorchHost())
        for assertion in inference.assertions:
            torch._check_value(assertion.holds, lambda a=assertion: a.text)
        for i, out in enumerate(call.outs):
            self.check_out(i, out, inference.results[i])
        found = [(t.dtype, shapes.sizes_of(t)) for t in inference.results]
        return [(dtype, (0,) if sizes is None else sizes) for dtype, sizes in found]

    def check_out(self, i: int, out: torch.Tensor, wanted: symbolic.TensorType) -> None:
        name, text = self.op.display_name, self.op.out_names[i]
        if wanted.shape is None:
            return
        if dtype_name(self.op, text, out) != wanted.dtype or len(wanted.shape) != out.dim():
            raise _anyop.InvalidArgument(
                f"{name}: {text} has {out.dtype} and {out.dim()} dimensions, but must be "
                f"{wanted.dtype}{list(wanted.shape)}."
            )
        for size, must in zip(out.shape, wanted.shape, strict=True):
            if must is not symbolic.UNKNOWN:
                torch._check_value(
                    size == must,
                    lambda: f"{name}: {text} must be {wanted.dtype}{list(wanted.shape or ())}.",
                )


def without_data(
    op: Operator, call: Call, declined: list[bool]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments and results of a call, as `plan_memory` takes them."""
    describe = functools.partial(described, op)
    outs = {i: describe(op.out_names[i], t) for i, t in enumerate(call.outs) if not declined[i]}
    arguments = shapes.describe(op, call.values, describe, NAMES)
    return shapes.without_data(op, arguments, declined, outs)


def _has_symbols(value: Any) -> bool:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return True
    if isinstance(value, torch.Tensor):
        return any(not isinstance(s, int) for s in (*value.shape, *value.stride()))
    return isinstance(value, list | tuple) and any(_has_symbols(v) for v in value)
