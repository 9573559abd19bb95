# SPDX-License-Identifier: Apache-2.0
"""The tensors that a graph holds: bound arguments and attributes of its program, constants."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from anyop import _anyop
from anyop._graph.value import Value
from anyop.torch._lower.source import Source
from anyop.torch._nodes.tensor_types import graph_dtype


class FreeNames:
    """Names in a graph, each given once. taken: those that sizes have."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def take(self, base: str) -> str:
        """This name, or with a number behind it."""
        numbered = (f"{base}_{i}" for i in itertools.count(1))
        name = next(n for n in itertools.chain([base], numbered) if n not in self._taken)
        self._taken.add(name)
        return name

    def take_for(self, node: Node) -> str:
        base = re.sub(r"\W", "_", node.name)
        return self.take(base if not base[:1].isdigit() else f"_{base}")


class Held:
    """Each tensor becomes a state of the graph, once."""

    def __init__(self, source: Source, tracer: _anyop.Tracer, names: FreeNames) -> None:
        self._source, self._tracer, self._names = source, tracer, names
        self._attributes: dict[Node, tuple[torch.Tensor, Value]] = {}
        self._rows: dict[Any, Value] = {}
        # Parts that draw random numbers write it, which keeps their order.
        token = torch.zeros(1, dtype=torch.uint8)
        self.token = Value(tracer, tracer.state("token", token, False))
        self._made = [token]
        self._n_constants = 0

    def argument(self, node: Node) -> Value:
        """A placeholder that is bound."""
        tensor = self._source.bound[node]
        return self._state(node, tensor, tensor)

    def attribute(self, node: Node, tensor: torch.Tensor) -> Value:
        """A tensor that is an attribute of the program, perhaps under several names."""
        for known, value in self._attributes.values():
            if known is tensor:
                return value
        made = self._state(node, tensor, tensor.detach())
        self._attributes[node] = (tensor, made)
        return made

    def constant(self, tensor: torch.Tensor, is_frozen: bool = True) -> Value:
        """A tensor that belongs to the graph."""
        self._made.append(tensor)
        self._n_constants += 1
        name = f"constant{self._n_constants}"
        return Value(self._tracer, self._tracer.state(name, tensor, is_frozen))

    def row(self, numbers: Iterable[Any], dtype: torch.dtype) -> Value:
        """Numbers that belong to the graph: one tensor for all who ask for the same."""
        row = list(numbers)
        key = (dtype, *map(repr, row))
        if key not in self._rows:
            self._rows[key] = self.constant(torch.tensor(row, dtype=dtype))
        return self._rows[key]

    def bound_rows(self) -> list[tuple[int, torch.Tensor, bool]]:
        """Rows of HeldTensors."""
        source = self._source
        rows = [
            (source.placeholders.index(n), t, source.may_freeze(n, t))
            for n, t in source.bound.items()
        ]
        return rows + [(-1, t, source.may_freeze(n, t)) for n, (t, _) in self._attributes.items()]

    def made(self) -> list[torch.Tensor]:
        """The tensors that must live as long as the graph and that nobody else holds."""
        return self._made

    def _state(self, node: Node, tensor: torch.Tensor, shown: torch.Tensor) -> Value:
        graph_dtype(tensor)  # refuses what no graph holds, with the reason
        is_frozen = self._source.may_freeze(node, tensor)
        name = self._names.take_for(node)
        return Value(self._tracer, self._tracer.state(name, shown, is_frozen))
