# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch host knows of an operator: its contract, and how torch's arguments map to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anyop import _anyop
from anyop.hosting import binding, facts, shapes

if TYPE_CHECKING:
    from anyop.hosting.gradient import Gradient

NAMES = shapes.DTypes.of_module("PyTorch", torch)
DTYPES: Mapping[torch.dtype, str] = NAMES.names
TORCH_DTYPES: Mapping[str, torch.dtype] = NAMES.by_name


class Call(NamedTuple):
    """One call of a torch operator: a value per parameter, which results are wanted, and where."""

    values: list[Any]
    mask: Sequence[bool] | None
    outs: list[Any]

    @property
    def arguments(self) -> list[Any]:
        """As the functional overload takes them."""
        return self.values if self.mask is None else [*self.values, self.mask]


class Operator(facts.Operator):
    """One operator. `overload` is "", "out" or "_": which of its three torch operators."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.schemas = dict(zip(("", "out", "_"), _anyop.schemas(name), strict=True))

    @functools.cached_property
    def gradient(self) -> Gradient | None:
        from anyop.hosting.gradient import gradient_of

        return gradient_of(self)

    @functools.cached_property
    def gradient_operator(self) -> Operator:
        assert self.gradient
        return Operator(self.gradient.operator)

    def torch_name(self, overload: str) -> str:
        """ "anyop::rms_norm", "anyop::rms_norm.out", "anyop::rms_norm_" """
        suffix = {"": "", "out": ".out", "_": "_"}[overload]
        return f"{self.library}::{self.short_name}{suffix}"

    def torch_op(self, overload: str) -> Any:
        """The OpOverload."""
        name = self.short_name + ("_" if overload == "_" else "")
        packet = getattr(getattr(torch.ops, self.library), name)
        return packet.out if overload == "out" else packet.default

    @functools.cached_property
    def out_names(self) -> list[str]:
        if len(self.results) == 1:
            return ["out"]
        return [f"out_{r.name}" for r in self.results]

    def bind(self, overload: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Sorts what torch passes; trailing defaults may be missing."""
        values, n = binding.take(self, args, kwargs), len(self.params)
        for i, p in enumerate(self.params):
            if p.kind == "dtype" and isinstance(values[i], str):
                values[i] = TORCH_DTYPES[values[i]]
        mask = args[n] if len(args) > n else kwargs.get("output_mask")
        outs = [kwargs[name] for name in self.out_names] if overload == "out" else []
        return Call(values, mask, [values[0]] if overload == "_" else outs)

    def declined(self, call: Call) -> list[bool]:
        """Which results are not computed."""
        return binding.declined(self, call.values, call.mask)

    def inputs(self, call: Call) -> Iterator[tuple[int, str, torch.Tensor]]:
        """(parameter, name in messages, tensor) of every tensor among the arguments."""
        return binding.tensors(self, call.values, torch.Tensor)

    def written_tensors(self, overload: str, call: Call) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, tensor) of every tensor that the call writes."""
        yield from ((name, t) for i, name, t in self.inputs(call) if i in self.written)
        if overload == "_":
            yield self.params[0].name, call.values[0]
        if overload == "out":
            yield from zip(self.out_names, call.outs, strict=True)

    def returned(self, overload: str, made: Sequence[Any], outs: Sequence[Any]) -> Any:
        """What the torch operator returns."""
        if overload:
            return outs[0] if self.has_lone_result else None
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)


def dtype_name(op: facts.Operator, name: str, t: torch.Tensor) -> str:
    return NAMES.name_of(op, name, t.dtype, t.shape)


def described(op: facts.Operator, name: str, t: torch.Tensor) -> Any:
    """A tensor without its data, as `plan_memory` takes it."""
    return 0, dtype_name(op, name, t), tuple(t.shape), t.stride()
