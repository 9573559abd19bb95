# SPDX-License-Identifier: Apache-2.0
"""The types of values, where torch's fakes tell others than its operators return.

What a graph's host nodes return is promised before they run, by their fakes. Some of these are
wrong: those of norms in training, for instance, of which some types save statistics in f32.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from anyop.torch._nodes.memory import random_or_effect, tensors_in, written_by
from anyop.torch._nodes.sizes import Unconverted, attribute, expression

_LIBRARIES = ("aten", "prims")
_MAX_ELEMENTS = 1 << 26  # zeros in place of larger arguments are not allocated
_Type = tuple[torch.dtype, tuple[int, ...]]
_returned: dict[str, list[_Type | None] | None] = {}  # by call


def believe(module: GraphModule, args: Sequence[Any]) -> None:
    """Gives placeholders the types of a call's arguments: some are what another graph has made."""
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    changed = set()
    for node, arg in zip(placeholders, args, strict=True):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not isinstance(arg, torch.Tensor):
            continue
        made = _of_type(value, (arg.dtype, tuple(arg.shape)))
        if made is not value:
            node.meta["val"] = made
            changed.add(node)
    if changed:
        _follow(module, changed)


def correct(module: GraphModule, nodes: Iterable[Node]) -> set[Node]:
    """Compares the fakes of nodes with what torch returns for zeros, and replaces those that are
    wrong, and what follows from them. The nodes that have other fakes."""
    changed = {node for node in nodes if _is_corrected(node)}
    return _follow(module, changed) if changed else changed


def _is_corrected(node: Node) -> bool:
    value = node.meta.get("val")
    many = list(value) if isinstance(value, (tuple, list)) else [value]
    found = _types(node)
    if found is None or len(found) != len(many):
        return False
    made = [_of_type(v, t) if t is not None else v for v, t in zip(many, found, strict=True)]
    if all(m is v for m, v in zip(made, many, strict=True)):
        return False
    node.meta["val"] = tuple(made) if isinstance(value, (tuple, list)) else made[0]
    return True


def _types(node: Node) -> list[_Type | None] | None:
    """The types that torch's operator returns; None where that is not tried."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in _LIBRARIES:
        return None
    if torch.Tag.pointwise in target.tags or random_or_effect(node) or written_by(node):
        return None
    fakes = [t for n in node.all_input_nodes for t in tensors_in(n.meta.get("val"))]
    if not fakes or not all(map(_is_small, fakes)):
        return None
    given: Any = (node.args, node.kwargs)
    stands: Any = lambda n: _Zeros(n.meta.get("val"))  # noqa: E731
    args, kwargs = map_arg(given, stands)
    key = f"{target} {args} {kwargs}"
    if key not in _returned:
        _returned[key] = _run(target, args, kwargs)
    return _returned[key]


def _run(target: Any, args: Any, kwargs: Any) -> list[_Type | None] | None:
    def zeros(argument: Any) -> Any:
        return argument.made() if isinstance(argument, _Zeros) else argument

    # The modes of a compilation would make fakes of the zeros.
    mode = torch.utils._python_dispatch._disable_current_modes()
    with mode, torch.no_grad():
        try:
            made = target(
                *torch.fx.node.map_aggregate(args, zeros),
                **torch.fx.node.map_aggregate(kwargs, zeros),
            )
        except Exception:  # zeros are no argument of it
            return None
    many = list(made) if isinstance(made, (tuple, list)) else [made]
    return [(t.dtype, tuple(t.shape)) if isinstance(t, torch.Tensor) else None for t in many]


class _Zeros:
    """The value of a node, as text that tells its type, and as zeros of this type."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        v = self.value
        if not isinstance(v, torch.Tensor):
            return str([repr(_Zeros(x)) for x in v] if isinstance(v, (tuple, list)) else _hint(v))
        return f"{v.dtype}{_hints(v.shape)}{_hints(v.stride())}"

    def made(self) -> Any:
        v = self.value
        if isinstance(v, (tuple, list)):
            return [_Zeros(x).made() for x in v]
        if not isinstance(v, torch.Tensor):
            return _hint(v)
        return torch.empty_strided(_hints(v.shape), _hints(v.stride()), dtype=v.dtype).zero_()


def _hint(size: Any) -> Any:
    return (
        size.node.hint if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) else size
    )


def _hints(sizes: Iterable[Any]) -> list[Any]:
    return [_hint(n) for n in sizes]


def _is_small(fake: torch.Tensor) -> bool:
    if fake.layout is not torch.strided or fake.device.type != "cpu":
        return False
    sizes = _hints(fake.shape)
    elements = 1
    for n in sizes:
        if n is None:  # it depends on data
            return False
        elements *= n
    return elements <= _MAX_ELEMENTS


def _of_type(fake: Any, type_: _Type) -> Any:
    """The fake itself, if it is of this type."""
    dtype, shape = type_
    if not isinstance(fake, torch.Tensor):
        return fake
    sizes = _hints(fake.shape)
    is_shape = len(sizes) == len(shape) and all(
        a is None or a == b or not isinstance(expression(n), int)
        for n, a, b in zip(fake.shape, sizes, shape, strict=True)
    )
    if is_shape and fake.dtype == dtype:
        return fake
    with detect_fake_mode(fake) or contextlib.nullcontext():
        if is_shape:
            return torch.empty_strided(fake.shape, fake.stride(), dtype=dtype, device=fake.device)
        return torch.empty(shape, dtype=dtype, device=fake.device)


def _follow(module: GraphModule, changed: set[Node]) -> set[Node]:
    """New fakes for what reads those that have changed."""
    for node in module.graph.nodes:
        if node in changed or node.op == "output" or changed.isdisjoint(node.all_input_nodes):
            continue
        made = _fake_of(module, node)
        if _type_of(made) != _type_of(node.meta.get("val")):
            changed.add(node)
        node.meta["val"] = made
    return changed


def _fake_of(module: GraphModule, node: Node) -> Any:
    def value(n: Node) -> Any:
        return n.meta["val"] if "val" in n.meta else attribute(module, str(n.target))

    target: Any = node.target
    given: Any = map_arg((node.args, node.kwargs), value)
    if target is not operator.getitem and not isinstance(target, torch._ops.OpOverload):
        raise Unconverted(f"torch's fake tensors mistell what {node.target} is given")
    with detect_fake_mode(given) or contextlib.nullcontext(), torch.no_grad():
        return target(*given[0], **given[1])


def _type_of(value: Any) -> Any:
    return [(t.dtype, [*map(expression, t.shape)]) for t in tensors_in(value)]
