# SPDX-License-Identifier: Apache-2.0
"""The views that lead from a tensor to another, as calls that can be made on any tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from anyop.torch._nodes.memory import is_in_place, viewed_by

_SOURCE = object()


@dataclass
class Step:
    """A call whose source is what the step before returned."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, source: Any, known: Callable[[Any], Any]) -> Any:
        def value(argument: Any) -> Any:
            if isinstance(argument, (list, tuple)):
                made = map(value, argument)
                return tuple(made) if isinstance(argument, tuple) else list(made)
            return source if argument is _SOURCE else known(argument)

        kwargs = {k: value(v) for k, v in self.kwargs.items()}
        return self.target(*map(value, self.args), **kwargs)


def chain(node: Node, root: Node, other: Callable[[Node], Any]) -> list[Step]:
    """root: whose memory the node lies in. other: what stands for nodes that are no source."""
    nodes = []
    while node is not root:
        nodes.append(node)
        source = viewed_by(node)
        assert source is not None
        node = source
    return [step for one in reversed(nodes) for step in _steps(one, other)]


def _made_new(target: Any) -> Any:
    """The operator that returns as a new tensor the view that an operator such as transpose_ makes
    of its argument itself."""
    name = target._schema.name.partition("::")[2].rstrip("_")
    packet, takes = getattr(torch.ops.aten, name), [a.type for a in target._schema.arguments]
    overloads = [getattr(packet, o) for o in packet.overloads()]  # named otherwise at times
    return next(o for o in overloads if [a.type for a in o._schema.arguments] == takes)


def _steps(node: Node, other: Callable[[Node], Any]) -> list[Step]:
    target: Any = node.target
    if target is operator.getitem:
        many: Any = node.args[0]
        if is_in_place(node):
            return []
        return [*_steps(many, other), Step(target, (_SOURCE, node.args[1]), {})]
    if is_in_place(node):
        if torch.Tag.inplace_view not in target.tags:
            return []  # the same tensor, written
        target = _made_new(target)
    source = viewed_by(node)
    assert source is not None
    made: Any = map_arg(
        (node.args, node.kwargs),
        lambda n: _SOURCE if n is source else other(n),  # type: ignore[arg-type,return-value]
    )
    return [Step(target, *made)]
