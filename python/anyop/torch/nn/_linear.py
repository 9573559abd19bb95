# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from anyop.torch.nn._operators import operators
from anyop.torch.nn._script import Unscripted
from anyop.torch.patterns.nn import ACTIVATIONS

_ops = operators("Linear")


class _Packed(NamedTuple):
    """The weight as the faster operator reads it, and what it was made from."""

    weight: torch.Tensor
    state: tuple[Any, ...]
    storage: torch.UntypedStorage  # alive, so that no other weight can have its address


class Linear(Unscripted, torch.nn.Linear):
    """y = activation(x @ weight.T + bias).

    activation  'none', 'relu', 'silu', 'gelu', ...: applied to the f32 sum; where a gradient is
                needed, to the sum in the dtype of the result
    pack        whether to keep a packed copy of the weight for inference; its products are faster

    The copy is made by an eager call while gradients are off, if the weight requires none
    (`module.requires_grad_(False)`). It is no part of the state, is dropped when torch counts a
    change of the weight, and costs its memory once more. torch counts no write through
    `weight.data` (`weight.data += delta`), NumPy or DLPack: after one call `drop_packed()`, or the
    module computes with the old weight. Without `pack` nothing has to be told.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "none",
        pack: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation, self.pack = activation, pack
        self._packed: _Packed | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]"""
        # A tracer would keep the packed weight of now as a constant, so it sees neither the copy
        # nor the call that makes it.
        if self.pack and not torch.is_grad_enabled() and not _is_watched():
            packed = self._pack(x, self.weight)
            if packed is not None:
                return self._run(_ops.packed, x, packed, self.out_features)
        activate = ACTIVATIONS.get(self.activation)
        if activate is not None and self._needs_gradient(x):
            return activate(_ops.linear(x, self.weight, self.bias))
        return self._run(_ops.linear, x, self.weight)

    def _needs_gradient(self, x: torch.Tensor) -> bool:
        if not torch.is_grad_enabled():
            return False
        given = [t for t in (x, self.weight, self.bias) if t is not None]
        # The tensor that a proxy of torch.fx stands for may need a gradient.
        return any(not isinstance(t, torch.Tensor) or t.requires_grad for t in given)

    def _run(self, op: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
        return op(*args, self.bias, self.activation)

    def _pack(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor | None:
        """The packed copy of the weight as it is now; None where there must be none."""
        if type(x) is not torch.Tensor:  # a fake tensor or a wrapper
            return None
        if x.dtype != weight.dtype or x.ndim == 0 or x.shape[-1] != self.in_features:
            return None  # the plain operator's error names the weight
        state = None if weight.requires_grad else _state(weight)
        if self._packed is not None and self._packed.state != state:
            self._packed = None
        if self._packed is None and state is not None:
            made = _ops.pack(weight.detach())
            self._packed = _Packed(made, state, weight.untyped_storage())
        return None if self._packed is None else self._packed.weight

    def drop_packed(self) -> None:
        """Forgets the packed copy."""
        self._packed = None

    def train(self, mode: bool = True) -> Linear:
        if mode:
            self._packed = None
        super().train(mode)
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> Linear:
        self._packed = None
        applied: Linear = super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return applied

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.activation == "none" else f"{text}, activation={self.activation!r}"


def _is_watched() -> bool:
    """Whether a compiler, a tracer or another mode of torch's sees the operators of this thread."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    return torch._C._len_torch_dispatch_stack() > 0


def _state(weight: torch.Tensor) -> tuple[Any, ...] | None:
    """What changes when the weight does; None for a weight whose changes cannot be seen."""
    if type(weight) not in (torch.Tensor, torch.nn.Parameter) or weight.device.type != "cpu":
        return None
    if weight.is_inference() or torch._C._functorch.is_functorch_wrapped_tensor(weight):
        return None
    return weight._version, weight.data_ptr(), weight.dtype, weight.shape, weight.stride()
