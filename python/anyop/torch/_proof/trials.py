# SPDX-License-Identifier: Apache-2.0
"""Arguments to try functions of tensors on: small sizes, strides as in a graph, telling values."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

Values = Mapping[Any, int]  # by symbol

_SIZES = (2, 3, 5, 4, 7, 1, 0, 8, 16, 64, 96, 128)
_MAX_TRIED = 150  # choices of sizes looked at
_MAX_CHOICES = 4  # and taken


def value_of(number: Any, values: Values) -> Any:
    """The value of a size, or of another number that depends on sizes, for these symbols."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool, sympy.Basic)):
        return number
    expr = number if isinstance(number, sympy.Basic) else number.node.expr
    made = expr.xreplace({s: sympy.Integer(n) for s, n in values.items()})
    if made in (sympy.true, sympy.false):
        return bool(made)
    if made.free_symbols:
        raise ValueError(f"{made} is not known")
    is_whole = isinstance(number, torch.SymInt) or made.is_Integer
    return int(made) if is_whole else float(made)


@dataclass
class Trial:
    """One choice of arguments. sizes: what the graph's symbols are in it."""

    tensors: list[Any]
    sizes: Values = field(default_factory=dict)
    name: str = ""

    def copies(self) -> list[Any]:
        """The arguments in memory of their own, with the same strides."""
        made = {id(t): _copy(t) if isinstance(t, torch.Tensor) else t for t in self.tensors}
        return [made[id(t)] for t in self.tensors]

    def of(self, tensors: list[Any]) -> Trial:
        """The same trial with other tensors."""
        made = copy.copy(self)
        made.tensors = tensors
        return made

    def size(self, number: Any) -> int:
        return int(value_of(number, self.sizes))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    memory = tensor.untyped_storage().clone()
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())


# What random normal numbers are multiplied by. Squares of huge ones overflow in f32.
KINDS = {"normal": 1.0, "zeros": 0.0, "small": 1e-5, "large": 1e3, "huge": 1e25}


def filled(
    shape: Iterable[int], stride: Iterable[int], dtype: torch.dtype, kind: str, seed: int
) -> torch.Tensor:
    """A tensor of these strides. Whole numbers lie between 0 and 2."""
    size, pitch = list(shape), list(stride)
    n = 1 + sum((a - 1) * b for a, b in zip(size, pitch, strict=True)) if 0 not in size else 0
    draw = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        made = (torch.randn(n, generator=draw) * KINDS[kind]).to(dtype)
    else:
        made = torch.randint(0, 2 if dtype == torch.bool else 3, (n,), generator=draw).to(dtype)
    return made.as_strided(size, pitch)


def choices(symbols: list[Any], environment: Any, constants: Iterable[int] = ()) -> list[Values]:
    """Sizes that a graph allows, each symbol several times; none where it allows none of these.

    constants: numbers of the graph, next to which it may change what it does.
    """
    if not symbols:
        return [{}]
    guards = _guards(symbols, environment)
    allowed = (v for v in itertools.islice(_assignments(symbols), _MAX_TRIED)
               if _is_allowed(v, environment, guards))  # fmt: skip
    found = list(itertools.islice(allowed, _MAX_CHOICES))
    for n in sorted({c + d for c in constants for d in (-1, 0, 1) if c + d > 8}):
        one = [{**v, s: n} for s in symbols for v in found[:2]]
        near = [dict.fromkeys(symbols, n), *one]
        found += [v for v in near if _is_allowed(v, environment, guards)][: len(symbols) + 1]
    return [v for i, v in enumerate(found) if v not in found[:i]]


def _assignments(symbols: list[Any]) -> Iterator[dict[Any, int]]:
    """First those in which the symbols differ, then those in which they are alike, then all."""
    n = len(_SIZES)
    for k in range(n):
        yield {s: _SIZES[(k + i) % n] for i, s in enumerate(symbols)}
    for size in _SIZES:
        yield dict.fromkeys(symbols, size)
    for row in itertools.product(_SIZES, repeat=len(symbols)):
        yield dict(zip(symbols, row, strict=True))


def _guards(symbols: list[Any], environment: Any) -> list[Any]:
    """Conditions that say something of these symbols alone, each once."""
    found = dict.fromkeys(environment.replace(g.expr) for g in environment.guards)
    return [g for g in found if g.free_symbols and g.free_symbols <= set(symbols)]


def _is_allowed(values: dict[Any, int], environment: Any, guards: list[Any]) -> bool:
    for symbol, n in values.items():
        interval = environment.var_to_range.get(symbol)
        if interval is not None and not interval.lower <= n <= interval.upper:
            return False
    known = {s: sympy.Integer(n) for s, n in values.items()}
    return all(g.xreplace(known) != sympy.false for g in guards)


def symbols_in(values: Iterable[Any]) -> tuple[list[Any], Any]:
    """The symbols of sizes and numbers in the order of their appearance, and their ShapeEnv."""
    found: dict[Any, None] = {}
    environment = None
    for value in values:
        many = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for number in many:
            if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                environment = number.node.shape_env
                free = number.node.expr.free_symbols
                found.update(dict.fromkeys(sorted(free, key=str)))
    return list(found), environment


class Shrunk:
    """Smaller sizes for a graph's large ones that are no symbols. fixed: sizes that stay."""

    LIMIT = 1 << 14  # elements

    def __init__(self, values: Iterable[Any], sizes: Values, fixed: Iterable[int] = ()) -> None:
        self.smaller: dict[int, int] = {}
        shapes = [[value_of(n, sizes) for n in v.shape] for v in values]
        kept = {*fixed, *sizes.values()}
        used = kept | {n for shape in shapes for n in shape}
        while True:
            worst = max(shapes, key=elements, default=[])
            largest = max((n for n in worst if n not in kept), default=0)
            if elements(worst) <= self.LIMIT or largest <= 8:
                return
            least = 24 if largest > 96 else 6
            # Dimensions are known by their sizes, so that no two sizes may become one.
            made = next(n for n in range(least, 1 << 20, 4) if n not in used)
            self.smaller[largest] = made
            used.add(made)
            kept.add(made)
            shapes = [[self.smaller.get(n, n) for n in shape] for shape in shapes]

    def __call__(self, n: Any) -> Any:
        return self.smaller.get(n, n) if type(n) is int else n


def elements(shape: list[int]) -> int:
    made = 1
    for n in shape:
        made *= n
    return made


def dense(shape: list[int], like: list[int]) -> list[int]:
    """Strides without gaps, in the order of others; what is repeated there is repeated."""
    made, pitch = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (like[d], -d)):
        if like[d]:
            made[d], pitch = pitch, pitch * max(shape[d], 1)
    return made


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


Function = Callable[[Trial], Any]
