# SPDX-License-Identifier: Apache-2.0
"""Calls as JAX keeps them: an operator with everything fixed but its tensors, known by a text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src.core import Primitive  # jax.extend imports Pallas beside it, 20 ms

from anyop import _anyop, _results
from anyop.hosting.facts import Operator

operator = functools.cache(Operator)

# What a primitive is told when it is made: how it is typed, compiled, differentiated, batched.
RULES: list[Callable[[Primitive], None]] = []


@functools.cache
def _primitive_of(name: str) -> Primitive:
    """The operator as a jaxpr shows it: `anyop.rms_norm[call=...] x weight`."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    for rule in RULES:
        rule(primitive)
    return primitive


class Call:
    """One bound call: the only parameter of its primitive in a jaxpr, shown there as its text.

    There is one object for each text, so that JAX may compare calls by identity. inputs: the
    parameter and the place in a list (-1: the tensor itself) of each tensor. written: the numbers
    of the inputs that it writes. results: the numbers of the operator's results that it computes.
    """

    def __init__(self, bound: _anyop.BoundCall) -> None:
        self.bound, self.text, self.contract = bound, bound.text, bound.contract
        self.op = operator(self.text.partition(" ")[2].partition("(")[0])
        self.values = bound.arguments
        self.inputs = tuple(self._inputs())
        self.written = tuple(k for k, (_, _, is_mut) in enumerate(bound.inputs) if is_mut)
        names = [r.name for r in self.op.results]
        self.results = tuple(names.index(name) for name, _, _ in bound.results)
        self._primitive = _primitive_of(self.op.name)

    def __repr__(self) -> str:
        return self.text

    def _inputs(self) -> Sequence[tuple[int, int]]:
        found = []
        for i, (p, value) in enumerate(zip(self.op.params, self.values, strict=True)):
            if p.kind == "tensors" and value is not None:
                found += [(i, k) for k in range(len(value))]
            elif p.kind == "tensor" and value is not None:
                found.append((i, -1))
        return found

    def bind(self, *tensors: Any) -> list[Any]:
        """What the call writes, then its results; part of whatever is traced."""
        made: list[Any] = self._primitive.bind(*_varying_alike(tensors), call=self)
        return made

    @functools.cached_property
    def jitted(self) -> Any:
        """`bind`, compiled once for each set of types: how a call is made that nobody traces."""

        def function(*tensors: Any) -> list[Any]:
            return self.bind(*tensors)

        function.__name__ = function.__qualname__ = self.op.short_name
        # There is nothing inside that could be called without jit to find where a NaN came from.
        function._apply_primitive = True  # type: ignore[attr-defined]
        return jax.jit(function)

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """A value per parameter, with these for its tensors."""
        values: list[Any] = [
            list(v) if p.kind == "tensors" and v is not None else v
            for p, v in zip(self.op.params, self.values, strict=True)
        ]
        for (i, k), tensor in zip(self.inputs, tensors, strict=True):
            if k < 0:
                values[i] = tensor
            else:
                values[i][k] = tensor
        return values

    def returned(self, made: Sequence[Any]) -> Any:
        """What a caller gets: what is written, then the results, alone where it is one."""
        n_written = len(self.written)
        results: list[Any] = [None] * len(self.op.results)
        for r, value in zip(self.results, made[n_written:], strict=True):
            results[r] = value
        if not self.op.written:
            return None if not results else results[0] if len(results) == 1 else tuple(results)
        written = dict(zip((self.inputs[k] for k in self.written), made, strict=False))
        first: list[Any] = []
        for i in self.op.written:
            elements = [value for (j, k), value in written.items() if j == i and k >= 0]
            is_list = self.op.params[i].kind == "tensors" and self.values[i] is not None
            first.append(elements if is_list else written.get((i, -1)))
        everything = [*first, *results]
        return everything[0] if len(everything) == 1 else _written_type(self.op.name)(*everything)


def _varying_alike(tensors: Sequence[Any]) -> Sequence[Any]:
    """Inside of `shard_map` JAX knows what differs between devices: all tensors of a call do where
    one does, which makes the gradient of another a sum over the devices.
    """
    axes = [jax.typeof(t).mat.varying for t in tensors]
    everything = frozenset().union(*axes)
    return [
        t if own == everything else jax.lax.pcast(t, tuple(everything - own), to="varying")
        for t, own in zip(tensors, axes, strict=True)
    ]


@functools.cache
def _written_type(name: str) -> Any:
    """The named tuple of an operator that writes: those arguments, then the results."""
    op = operator(name)
    names = [*(op.params[i].name for i in op.written), *(r.name for r in op.results)]
    return _results.named(name, names, _restored)


def _restored(name: str, values: tuple[Any, ...]) -> Any:
    """Unpickles such a tuple."""
    return _written_type(name)._make(values)


_calls: dict[_anyop.BoundCall, Call] = {}


def call_of(bound: _anyop.BoundCall) -> Call:
    """The one object of this call."""
    known = _calls.get(bound)
    if known is None:  # setdefault: of two threads that are here at once, both get the first's
        known = _calls.setdefault(bound, Call(bound))
    return known


def call(bound: _anyop.BoundCall, tensors: tuple[Any, ...], out: Any) -> Any:
    """A call of an operator with JAX arrays, traced or not. out: what the caller gave, or None."""
    made = call_of(bound)
    if out is not None:
        _refuse_out(made.op, out)
    if any(isinstance(t, jax.core.Tracer) for t in tensors):
        return made.returned(made.bind(*tensors))
    return made.returned(made.jitted(*tensors))


def _refuse_out(op: Operator, out: Any) -> None:
    """JAX's arrays are never written; False still says which results are not wanted."""
    given = out if isinstance(out, tuple) and len(op.results) > 1 else (out,)
    if any(value is not None and value is not False for value in given):
        raise _anyop.WrongType(
            f"{op.display_name}: out is given, but JAX's arrays are never written, so that a call "
            "returns fresh ones. Leave it out."
        )
