# SPDX-License-Identifier: Apache-2.0
"""torch as a contender: eager, or compiled by Inductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import torch
    import torch._functorch.config as functorch_config
except ImportError:  # without it TorchSide is a name in cases, and never made
    pass


class TorchSide:
    """What a case's `torch` function makes its call with.

    torch, F   the modules
    compiled   whether Inductor compiles the call
    """

    def __init__(self, compiled: bool) -> None:
        self.torch, self.F = torch, torch.nn.functional
        self.compiled = compiled

    def call(
        self, function: Callable[..., Any], *args: Any, weights: Sequence[Any] = ()
    ) -> Callable[[], Any]:
        """function(*args) without gradients. weights: those of args that never change; compiled,
        they are frozen, so that oneDNN packs them once."""
        if self.compiled and weights:
            return _frozen(function, args, weights)
        run = self._wrapped(function)

        def timed() -> Any:
            with torch.no_grad():
                return run(*args)

        return timed

    def gradient(
        self, function: Callable[..., Any], args: Sequence[Any], dy: Any
    ) -> Callable[[], Any]:
        """The gradients of function(*args) for all floating-point tensors among args; returns the
        first."""
        wanted = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
        for a in wanted:
            a.requires_grad_()
        y = self._wrapped(function)(*args)
        return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)[0]

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.compiled:
            return function
        # Gradients are asked for many times, so their buffers may not be given up the first time.
        functorch_config.donated_buffer = False
        return torch.compile(lambda *args: function(*args), dynamic=False)


def _frozen(
    function: Callable[..., Any], args: Sequence[Any], weights: Sequence[Any]
) -> Callable[[], Any]:
    """The function with its weights inside, compiled."""
    import torch._inductor.config as config

    fixed = {i: a for i, a in enumerate(args) if any(a is w for w in weights)}

    class Frozen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i, weight in fixed.items():
                parameter = torch.nn.Parameter(weight, requires_grad=False)
                self.register_parameter(f"weight_{i}", parameter)

        def forward(self, *others: Any) -> Any:
            rest = iter(others)
            return function(
                *(
                    getattr(self, f"weight_{i}") if i in fixed else next(rest)
                    for i in range(len(args))
                )
            )

    others = tuple(a for i, a in enumerate(args) if i not in fixed)
    compiled = torch.compile(Frozen().eval(), dynamic=False)
    # torch 2.13 heeds this only as configuration: as an option of compile it does nothing.
    with torch.no_grad(), config.patch(freezing=True):
        compiled(*others)

    def timed() -> Any:
        with torch.no_grad():
            return compiled(*others)

    return timed


def tensor_of(array: np.ndarray) -> Any:
    """A tensor of its own memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.copy().view(np.uint16)).view(torch.bfloat16)
    if array.dtype.name == "float8_e4m3fn":
        return torch.from_numpy(array.copy().view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array.copy())


def to_numpy(value: Any) -> Any:
    """A tensor as an array of f64; anything else as it is."""
    return value.detach().double().numpy() if isinstance(value, torch.Tensor) else value


def set_threads(n: int) -> None:
    """The number of threads of torch's operators."""
    torch.set_num_threads(n)


def reset() -> None:
    """Between cases, so that none meets another's recompile limit."""
    torch._dynamo.reset()
