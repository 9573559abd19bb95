# SPDX-License-Identifier: Apache-2.0
"""Which masks of attention say no more than that a query sees the keys before it.

A mask that is known when the graph is made is looked at. Of one that depends on a position of the
call, `keys <= queries + position`, the comparisons are read: each side is affine in the indices of
key and query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop.torch._fold import folded
from anyop.torch._memory import viewed_by
from anyop.torch._sizes import is_same

_aten = torch.ops.aten
_WHOLE = (torch.int32, torch.int64)


@dataclass(frozen=True)
class Causal:
    """Query i sees keys j <= i + P and, if window >= 0, j >= i + P - window, P = offset + shift.

    offset: None, all keys; "last", keys less queries; a node, one number of the call.
    """

    offset: Any
    shift: int = 0
    window: int = -1
    readers: tuple[Node, ...] = ()  # what reads the number of the call


@dataclass(frozen=True)
class Affine:
    """const + data + the sum of factors[d] times the index in dimension d, from the last one on."""

    factors: tuple[tuple[int, int], ...] = ()
    const: int = 0
    data: Node | None = None

    def less(self, other: Affine) -> Affine | None:
        """self - other; None where that is no such sum."""
        data = self.data
        if other.data is not None:
            if other.data is not data:
                return None
            data = None
        factors = dict(self.factors)
        for d, f in other.factors:
            factors[d] = factors.get(d, 0) - f
        kept = tuple(sorted((d, f) for d, f in factors.items() if f))
        return Affine(kept, self.const - other.const, data)


# A condition: first >= second.
Condition = tuple[Affine, Affine]


def causal(module: GraphModule, mask: Any, s: Any, t: Any) -> Causal | None:
    """What a mask [.., s, t] says, boolean or added to scores; None where it may say more."""
    known = folded(module, mask)
    if known is not None:
        return _of_values(known)
    condition = _where(module, mask)
    if condition is None:
        return None
    reader = _Reader(module)
    found = reader.conditions(condition)
    made = None if found is None else _of_conditions(found, s, t)
    return None if made is None else replace(made, readers=tuple(reader.readers))


def _of_values(mask: torch.Tensor) -> Causal | None:
    if mask.dim() < 2 or mask.numel() == 0:
        return None
    seen = mask
    if mask.is_floating_point():
        seen = mask == 0
        if not (seen | (mask <= torch.finfo(mask.dtype).min)).all():
            return None
    rows = seen.reshape(-1, *seen.shape[-2:])
    if not (rows == rows[:1]).all():
        return None
    s, t = rows.shape[1:]
    i, j = torch.arange(s)[:, None], torch.arange(t)[None]
    if rows[0].all():
        return Causal(None)
    last = i + t - s
    first_seen = (rows[0].int().argmax(1))[:, None]
    windows = {int(w) for w, f in zip(last - first_seen, first_seen, strict=True) if f > 0}
    window = windows.pop() if len(windows) == 1 else -1
    expected = (j <= last) & ((j >= last - window) if window >= 0 else torch.tensor(True))
    is_so = not windows and bool((expected == rows[0]).all()) and bool(rows[0].any(1).all())
    return Causal("last", 0, window) if is_so else None


def _where(module: GraphModule, mask: Any) -> Node | None:
    """The boolean behind where(condition, 0, -inf), or behind a boolean mask."""
    if not isinstance(mask, Node):
        return None
    if mask.meta["val"].dtype == torch.bool:
        return mask
    if mask.target is not _aten.where.self:
        return None
    condition, seen, hidden = mask.args
    numbers = [folded(module, n) for n in (seen, hidden)]
    if any(n is None or n.numel() != 1 for n in numbers):
        return None
    zero, low = (float(n) for n in numbers if n is not None)
    is_mask = zero == 0 and low <= torch.finfo(mask.meta["val"].dtype).min
    return condition if is_mask and isinstance(condition, Node) else None


def _of_conditions(found: list[Condition], s: Any, t: Any) -> Causal | None:
    if not found:
        return Causal(None)
    offset: Causal | None = None
    place = Affine()
    windows: list[Affine] = []
    one_query = is_same(s, 1)
    for first, second in found:
        difference = first.less(second)
        back = second.less(first)
        if difference is None and back is None:
            return None
        made = difference if difference is not None else back
        assert made is not None
        factors = dict(made.factors)
        sign = 1 if made is difference else -1
        key, query = sign * factors.pop(0, 0), sign * factors.pop(1, 0)
        if factors or (query != -key and not (one_query and query == 0)):
            return None
        if key == -1 and sign == 1 and offset is None:
            is_last = made.data is None and is_same(s + made.const, t)
            if made.data is None and not is_last:
                return None
            offset = Causal("last") if is_last else Causal(made.data, made.const)
            place = made
        elif key == 1:  # j >= i + data + const
            windows.append(made if sign == -1 else _negative(made))
        else:
            return None
    if offset is None or len(windows) > 1:
        return None
    if not windows:
        return offset
    row = windows[0]
    width = place.const - row.const
    is_same_place = row.data is place.data and width >= 0
    return replace(offset, window=width) if is_same_place else None


def _negative(row: Affine) -> Affine:
    """Without data."""
    return Affine(tuple((d, -f) for d, f in row.factors), -row.const)


class _Reader:
    """Reads index arithmetic."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.readers: list[Node] = []  # of numbers of the call

    def conditions(self, node: Any) -> list[Condition] | None:
        """What must hold for an element to be true; None where that is something else."""
        if not isinstance(node, Node):
            return None
        known = folded(self.module, node)
        if known is not None:
            return [] if known.dtype == torch.bool and bool(known.all()) else None
        if node.target in _BOTH:
            sides = [self.conditions(n) for n in node.args[:2]]
            return None if sides[0] is None or sides[1] is None else [*sides[0], *sides[1]]
        if node.target in _COMPARED:
            return self.compared(node)
        if node.target in _MOVED:
            source: Any = node.args[0]
            found = self.conditions(source)
            if found is None:
                return None
            rows = [tuple(_moved(side, source, node) for side in row) for row in found]
            return None if any(None in row for row in rows) else rows  # type: ignore[return-value]
        return None

    def compared(self, node: Node) -> list[Condition] | None:
        is_swapped, is_strict = _COMPARED[node.target]
        sides = [self.affine(n, node) for n in node.args[:2]]
        if sides[0] is None or sides[1] is None:
            return None
        first, second = (sides[1], sides[0]) if is_swapped else (sides[0], sides[1])
        return [(first, replace(second, const=second.const + is_strict))]

    def affine(self, node: Any, reader: Node) -> Affine | None:
        """reader: what computes with it."""
        if isinstance(node, int) and not isinstance(node, bool):
            return Affine(const=node)
        if not isinstance(node, Node) or not isinstance(node.meta.get("val"), torch.Tensor):
            return None
        value = node.meta["val"]
        if value.dtype not in _WHOLE:
            return None
        known = folded(self.module, node)
        found = _affine_values(known) if known is not None else self.computed(node, reader)
        if found is None and all(is_same(n, 1) for n in value.shape):
            self.readers.append(reader)
            return Affine(data=node)
        return found

    def computed(self, node: Node, reader: Node) -> Affine | None:
        if node.target in _MOVED:
            source: Any = node.args[0]
            found = self.affine(source, node if viewed_by(node) is None else reader)
            return None if found is None else _moved(found, source, node)
        if node.target is _aten.arange.default:
            return Affine(((0, 1),))
        if node.target not in _SUMS or node.kwargs:
            return None
        a, b = (self.affine(n, node) for n in node.args[:2])
        if a is None or b is None:
            return None
        if _SUMS[node.target] < 0:
            return a.less(b)
        if a.data is not None and b.data is not None:
            return None
        made = a.less(_negative(b))
        return None if made is None else replace(made, data=a.data or b.data)


_BOTH = (_aten.bitwise_and.Tensor, _aten.logical_and.default)
_COMPARED: dict[Any, tuple[bool, bool]] = {}  # by operator: whether the second is the larger one
for _name, _swapped, _strict in (("le", True, False), ("lt", True, True), ("ge", False, False),
                                 ("gt", False, True)):  # fmt: skip
    for _overload in ("Tensor", "Scalar"):
        _COMPARED[getattr(getattr(_aten, _name), _overload)] = (_swapped, _strict)
_SUMS = {_aten.add.Tensor: 1, _aten.add.Scalar: 1, _aten.sub.Tensor: -1, _aten.sub.Scalar: -1}
_MOVED = (_aten.view.default, _aten.reshape.default, _aten.unsqueeze.default,
          _aten.squeeze.dim, _aten.expand.default, _aten.alias.default, _aten.clone.default,
          _aten._to_copy.default)  # fmt: skip


def _moved(found: Affine, source: Node, node: Node) -> Affine | None:
    """The same where dimensions of size 1 were put in, left out or repeated."""
    old, new = source.meta["val"].shape, node.meta["val"].shape
    wide = [d for d, n in enumerate(reversed(old)) if not is_same(n, 1)]
    if node.target is _aten.expand.default:
        places = {d: d for d in wide}
    else:
        found_at = [d for d, n in enumerate(reversed(new)) if not is_same(n, 1)]
        if len(found_at) != len(wide):
            return None
        places = dict(zip(wide, found_at, strict=True))
        if not all(is_same(old[-1 - d], new[-1 - e]) for d, e in places.items()):
            return None
    return replace(found, factors=tuple((places[d], f) for d, f in found.factors if d in places))


def _affine_values(values: torch.Tensor) -> Affine | None:
    """Numbers that rise evenly along each dimension."""
    if values.numel() == 0:
        return None
    first = values[(0,) * values.dim()]
    made, factors = first.clone(), []
    for d in range(values.dim()):
        n = values.shape[values.dim() - 1 - d]
        if n < 2:
            continue
        at = [0] * values.dim()
        at[values.dim() - 1 - d] = 1
        step = int(values[tuple(at)] - first)
        made = made + torch.arange(n).reshape(-1, *[1] * d) * step
        factors.append((d, step))
    is_even = bool((made.expand(values.shape) == values).all())
    kept = tuple((d, f) for d, f in factors if f)
    return Affine(kept, int(first)) if is_even else None
