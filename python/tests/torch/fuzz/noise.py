# SPDX-License-Identifier: Apache-2.0
"""How far apart two right runs of a program may be.

A program is run again with noise of the size of one rounding on the arguments and results of each
operator whose bits may differ between implementations. What that does to its results is the
tolerance: nothing, where all of its operators have exact results.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuzz.program import Program
from fuzz.session import Seen, Session, overwrite

TRIALS, SAFETY = 6, 16.0

# Operators whose result is one value of an argument, or is rounded once from such.
_EXACT = frozenset(
    """
    abs alias amax amin any all arange argmax argmin argsort as_strided as_strided_ bitwise_and
    bitwise_not bitwise_or bitwise_xor bucketize cat ceil chunk clamp clamp_ clamp_max clamp_min
    clone constant_pad_nd copy copy_ cummax cummin detach diagonal empty empty_like empty_strided
    eq equal expand eye fill fill_ flip floor full full_like gather ge gt index index_copy
    index_copy_ index_fill index_fill_ index_put index_put_ index_select isfinite isinf isnan
    item kthvalue le lift_fresh logical_and logical_not logical_not_ logical_or logical_xor lt
    masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select max maximum median min
    minimum movedim narrow ne neg neg_ new_empty new_full new_ones new_zeros nonzero ones ones_like
    permute relu relu_ repeat reshape roll round scalar_tensor scatter scatter_ select
    set_ sign slice slice_scatter select_scatter sort split split_with_sizes squeeze squeeze_ stack
    t t_ take to topk transpose transpose_ tril tril_ triu triu_ trunc unbind unfold unsqueeze
    unsqueeze_ view where zero_ zeros zeros_like _to_copy _unsafe_view _reshape_alias
    _local_scalar_dense rand rand_like randn bernoulli bernoulli_ uniform_ normal_ randint
    native_dropout embedding nan_to_num hardtanh repeat_interleave searchsorted
    """.split()  # noqa: SIM905
)
_ONE_ROUNDING = frozenset(("add", "sub", "mul", "rsub", "add_", "sub_", "mul_", "div", "div_"))
_WIDE = (torch.float32, torch.float64)


class Noise(TorchDispatchMode):
    def __init__(self, trial: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trial, self.generator = trial, torch.Generator().manual_seed(trial + 1)
        self.products: dict[int, Any] = {}  # results of multiplications, kept alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.partition("::")[2]
        if func.namespace == "aten" and self.is_exact(name, args):
            made = func(*args, **kwargs)
            if name in ("mul", "mul_") and isinstance(made, torch.Tensor):
                self.products[id(made)] = made
            return made
        if not func._schema.is_mutable:
            args, kwargs = pytree.tree_map_only(torch.Tensor, self.shaken, (args, kwargs))
        made = func(*args, **kwargs)
        if func._schema.is_mutable:
            self.shake_written(func, args, kwargs)
            return made
        return pytree.tree_map_only(torch.Tensor, self.shaken, made)

    def is_exact(self, name: str, args: Any) -> bool:
        if name in _EXACT:
            return True
        tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        is_wide = all(t.dtype in _WIDE or not t.is_floating_point() for t in tensors)
        is_fused = name in ("add", "sub", "add_", "sub_") and any(
            id(t) in self.products for t in tensors
        )  # which may be one rounding instead of two
        return name in _ONE_ROUNDING and is_wide and not is_fused

    def shaken(self, t: torch.Tensor) -> torch.Tensor:
        if not t.is_floating_point() or t.numel() == 0:
            return t
        noise = torch.rand(t.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        if self.trial < 2:  # all up, all down: of few elements, random noise may round away
            noise = torch.full_like(noise, 1 - 2 * self.trial)
        return (t.double() * (1 + noise * torch.finfo(t.dtype).eps)).to(t.dtype)

    def shake_written(self, func: Any, args: Any, kwargs: Any) -> None:
        for i, parameter in enumerate(func._schema.arguments):
            if parameter.alias_info is None or not parameter.alias_info.is_write:
                continue
            given = args[i] if i < len(args) else kwargs.get(parameter.name)
            for t in pytree.tree_leaves(given):
                if isinstance(t, torch.Tensor) and t.is_floating_point():
                    t.detach().copy_(self.shaken(t))


def _seen(program: Program, call: int, trial: int | None) -> Seen:
    """A call of the program, with noise in it and in those before it, whose results are written
    into as the comparison does: they may share memory with what later calls read.
    """
    session = Session(program)
    seen = None
    for _ in range(call + 1):
        if seen is not None and program.grad != "train":
            overwrite(seen)
        seen = session.call() if trial is None else _noisy(session, trial)
    assert seen is not None
    return seen


def _noisy(session: Session, trial: int) -> Seen:
    session.within = lambda: Noise(trial)
    return session.call()


def tolerances(program: Program, call: int) -> dict[str, torch.Tensor | None]:
    """By name: how far elements may be off; None where noise decides what they are."""
    base = _everything(_seen(program, call, None))
    trials = [_everything(_seen(program, call, trial)) for trial in range(TRIALS)]
    return {name: _spread(value, [t.get(name) for t in trials]) for name, value in base.items()}


def _everything(seen: Seen) -> dict[str, torch.Tensor]:
    return {
        **seen.values,
        **{f"gradient of {n}": t for n, t in seen.gradients.items() if isinstance(t, torch.Tensor)},
    }


def _spread(value: torch.Tensor, others: list[torch.Tensor | None]) -> torch.Tensor | None:
    if any(o is None or o.shape != value.shape for o in others):
        return None
    if not value.is_floating_point():
        return None if any(not torch.equal(value, o) for o in others) else torch.zeros(())
    wide = value.double()
    most = torch.zeros_like(wide)
    for other in others:
        assert other is not None
        off = (other.double() - wide).abs()
        if bool((other.isfinite() != value.isfinite()).any()):
            return None
        most = torch.maximum(most, off.nan_to_num(0.0, 0.0, 0.0))
    if not bool(most.any()):
        return torch.zeros(())
    eps = torch.finfo(value.dtype).eps
    return SAFETY * most + 4 * most.mean() + 4 * eps * wide.abs().nan_to_num(0.0, 0.0, 0.0)
