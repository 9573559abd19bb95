# SPDX-License-Identifier: Apache-2.0
"""A graph of anyop's while it is made of a torch program: what converters and steps ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from anyop import _anyop
from anyop._graph.host import TORCH, Part, operator
from anyop._graph.value import Value
from anyop.torch._dispatch.operators import DTYPES
from anyop.torch._lower.held import FreeNames, Held
from anyop.torch._lower.source import Source
from anyop.torch._nodes.sizes import Sizes, Unconverted
from anyop.torch.patterns import aten


class Building:
    """tracer: records the graph. sizes: torch's sizes as the graph's. parts: what the host runs."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tracer = _anyop.Tracer(source.name)
        self.sizes = Sizes(self.tracer, source.symbol_names)
        self.names = FreeNames(self.sizes.name(s) for s in source.symbols())
        self.held = Held(source, self.tracer, self.names)
        self.parts: list[Part] = []
        self._shared: dict[Any, Value] = {}  # by what they are

    def dtype(self, value: Value) -> str:
        dtype: str = self.tracer.describe(value._id)[2]
        return dtype

    def row(self, numbers: Iterable[Any], dtype: torch.dtype) -> Value:
        """Numbers that belong to the graph."""
        return self.held.row(numbers, dtype)

    def is_written(self, *nodes: Node) -> bool:
        """Whether the program writes the memory of one of these nodes."""
        return any(self.source.is_written(n) for n in nodes)

    def copied(self, value: Value) -> Value:
        """Fresh memory in each call, with elements in order."""
        return aten.contiguous(self, value)

    def once(self, name: str, index: Value, *numbers: Any) -> Value:
        """A call of an operator on an index, for all who ask for the same."""
        key = (name, index._id, *map(str, numbers))
        if key not in self._shared:
            self._shared[key] = aten.operator(name)(index, *numbers)
        return self._shared[key]

    def starts(self, batch: int, length: Any) -> Value:
        """i32[batch + 1]: where each sequence of so many tokens begins, and where the last ends."""
        key = ("starts", batch, str(length))
        if key not in self._shared:
            self._shared[key] = self._starts(batch, length)
        return self._shared[key]

    def _starts(self, batch: int, length: Any) -> Value:
        if isinstance(length, int):  # no range has steps of 0
            numbers = range(0, batch * length + 1, length) if length else [0] * (batch + 1)
            return self.row(numbers, torch.int32)

        # Sizes that vary have no constant row: the host computes it, once for all who ask.
        def run(n: int) -> torch.Tensor:
            return torch.arange(batch + 1, dtype=torch.int32) * n

        part = Part(run, ["arange"], "")
        self.parts.append(part)
        made: Value = operator(["n: int"], [f"y0: i32[{batch + 1}]"], TORCH)(part.number, length)
        return made

    def check_type(self, want: torch.Tensor, got: Any) -> None:
        """Refuses a value that has another type than torch's."""
        _, shown, dtype, shape = self.tracer.describe(got._id)
        is_alike = dtype == DTYPES.get(want.dtype) and len(shape) == want.dim()
        if not is_alike or any(
            str(self.sizes(n)) != str(m) for n, m in zip(want.shape, shape, strict=True)
        ):
            raise Unconverted(f"its converter made {shown}, but torch {want.dtype}{[*want.shape]}")
