# SPDX-License-Identifier: Apache-2.0
"""Comparisons get their operands in the order in which the program gives them to torch.

Python asks the right operand of a comparison first where its class derives from the left one's:
`a > b` is then b < a, whose result is strided like b. While a program is traced the classes are
others: what is traced is a FakeTensor, which derives from Tensor, be it a Parameter or not, and
what the program holds is real.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from anyop import _anyop
from anyop.torch._nodes.lines import shown_place, user_frames

_NAMES = ("lt", "le", "gt", "ge", "eq", "ne")
_OPERATORS = {getattr(torch.ops.aten, name).Tensor for name in _NAMES}
_patching = threading.RLock()  # FakeTensor is patched for all threads


def remember_class(fake: Any, argument: torch.Tensor) -> None:
    """fake: what stands for an argument while the program is traced."""
    fake.anyop_class = type(argument)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    sizes, strides = (
        [n if isinstance(n, int) else n.node.hint for n in row]
        for row in (tensor.shape, tensor.stride())
    )
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")


def _follows_first(func: Any, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the result is strided otherwise if the operands change places."""
    with _disable_current_modes():
        one, other = _like(a), _like(b)
        return bool(func(one, other).stride() != func(other, one).stride())


class Comparisons:
    """Tells by a first trace whether a second one is needed, in which Python sees such classes that
    it orders operands as it does when the program runs."""

    def __init__(self, name: str) -> None:
        self.name = name  # of the program
        self.held: dict[int, torch.Tensor] = {}  # plain ones that are compared, by id
        self.is_ordered = False
        self.is_doubtful = False

    def see(self, func: Any, args: Any) -> None:
        """An operator that is traced."""
        if func not in _OPERATORS:
            return
        a, b = args
        is_held = type(b) is torch.Tensor and isinstance(a, FakeTensor)
        is_other = not self.is_ordered and self.is_asked_first(b, a)
        if (is_held or is_other) and _follows_first(func, a, b):
            self.is_doubtful = True
            if is_held:
                self.hold(b)

    def hold(self, tensor: torch.Tensor) -> None:
        if tensor.grad_fn is not None:  # as a Parameter, torch's tracer refuses it
            raise _anyop.InvalidArgument(
                f"{self.name}: {shown_place(user_frames())} compares a tensor that autograd has "
                "the history of with one of the graph's, but which of both torch gets first is not "
                "known while a graph is made. Try a detach() of it."
            )
        self.held[id(tensor)] = tensor

    def is_asked_first(self, right: Any, left: Any) -> bool:
        """Whether Python asks the right operand first when the program runs."""
        mine, other = self.class_of(right), self.class_of(left)
        return mine is not other and issubclass(mine, other)

    def class_of(self, tensor: Any) -> type:
        """The class that the tensor has when the program runs."""
        if isinstance(tensor, FakeTensor):
            known: type = getattr(tensor, "anyop_class", torch.Tensor)
            return known
        return torch.Tensor if id(tensor) in self.held else type(tensor)

    @contextlib.contextmanager
    def ordered(self) -> Iterator[None]:
        """While the program is traced, again if the trace before was doubtful: FakeTensor does not
        derive from Parameter, and leaves a comparison to an operand that has to be asked first."""
        self.is_ordered, self.is_doubtful = self.is_doubtful, False
        if not self.is_ordered:
            yield
            return
        held = list(self.held.values())
        with _patching:
            try:
                for name in _NAMES:
                    setattr(FakeTensor, f"__{name}__", self.comparison(f"__{name}__"))
                for tensor in held:
                    tensor.__class__ = torch.nn.Parameter
                yield
            finally:
                for tensor in held:
                    tensor.__class__ = torch.Tensor
                for name in _NAMES:
                    delattr(FakeTensor, f"__{name}__")

    def comparison(self, name: str) -> Any:
        plain = getattr(torch.Tensor, name)

        def compare(left: Any, right: Any) -> Any:
            return NotImplemented if self.is_asked_first(right, left) else plain(left, right)

        return compare
