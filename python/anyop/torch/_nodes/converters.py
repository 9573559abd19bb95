# SPDX-License-Identifier: Apache-2.0
"""Which torch operators can be part of a graph, and how.

    @anyop.torch.converter(torch.ops.my.twice.default)
    def twice(x):
        return anyop.add(x, x)

A converter gets what the torch operator is called with, with values of the graph for tensors, and
calls operators of anyop on them. What it does not take it refuses with NotImplemented, or by an
error of an operator that it calls; then the torch operator itself runs as a host node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from anyop import _anyop
from anyop._graph.value import Value
from anyop.torch._dispatch.operators import Operator
from anyop.torch._nodes.sizes import Unconverted

Converter = Callable[..., Any]

_converters: dict[Any, Converter] = {}
_internal: dict[Any, Converter] = {}
_views: dict[Any, Converter] = {}
_operators: dict[str, Operator] = {}


def converter(op: Any) -> Callable[[Converter], Converter]:
    """Registers a converter of one torch operator (an OpOverload); the last one counts.

    Errors: TypeError for what is no OpOverload.
    """
    if not isinstance(op, torch._ops.OpOverload):
        raise _anyop.WrongType(
            f"anyop.torch.converter: {op!r} is given, but must be one overload of a torch "
            "operator. Try torch.ops.aten.silu.default."
        )

    def register(function: Converter) -> Converter:
        _converters[op] = function
        return function

    return register


def find(node: Node, building: Any) -> Converter | None:
    """The converter of a node, called with its arguments: values for tensors."""
    # Public converters come first, so that a user's replaces one of ours.
    if node.target in _converters:
        return _converters[node.target]
    if node.target in _internal:
        return functools.partial(_internal[node.target], node, building)
    operator, overload = _ours(node.target)
    return _BySignature(operator, overload) if operator else None


def is_known(node: Node) -> bool:
    """Whether a node has a converter, which may yet refuse it."""
    is_given = node.target in _converters or node.target in _internal
    return is_given or _ours(node.target)[0] is not None


def find_view(node: Node) -> Converter | None:
    """Called with the node, the value that it is a view of, and a graph's sizes."""
    return _views.get(node.target)


def internal(op: Any) -> Callable[[Converter], Converter]:
    """As `converter`, for a function that gets the node and the building before the arguments."""

    def register(function: Converter) -> Converter:
        _internal[op] = function
        return function

    return register


def view(op: Any) -> Callable[[Converter], Converter]:
    def register(function: Converter) -> Converter:
        _views[op] = function
        return function

    return register


def _ours(target: Any) -> tuple[Operator | None, str]:
    """The operator of anyop behind a torch operator, and which of its variants that is."""
    if not isinstance(target, torch._ops.OpOverload):
        return None, ""
    name = target._schema.name.replace("::", ".")
    overload = target._overloadname
    known = _anyop.functions()
    if name not in known and name.endswith("_") and name[:-1] in known:
        name, overload = name[:-1], "_"
    if name not in known or overload not in ("default", "out", "_"):
        return None, ""
    if name not in _operators:
        _operators[name] = Operator(name)
    return _operators[name], "" if overload == "default" else overload


class _BySignature:
    """The converter of an operator of anyop: a call of the operator with the same arguments."""

    def __init__(self, operator: Operator, overload: str) -> None:
        self._operator, self._overload = operator, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        op = self._operator
        if not any(isinstance(leaf, Value) for leaf in pytree.tree_leaves((args, kwargs))):
            raise Unconverted("no argument is a tensor, so that it runs once")
        call = op.bind(self._overload, args, kwargs)
        if not op.results:
            return op.function(*call.values)
        out = list(call.outs) or [None] * len(op.results)
        for i, is_declined in enumerate(op.declined(call)):
            if is_declined:
                out[i] = False
        if all(o is None for o in out):
            return op.function(*call.values)
        return op.function(*call.values, out=out[0] if len(out) == 1 else tuple(out))
