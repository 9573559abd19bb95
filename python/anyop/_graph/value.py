# SPDX-License-Identifier: Apache-2.0
"""A tensor of a graph under construction: its type, and views of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anyop import _anyop
from anyop._graph.size import Size, divide
from anyop._graph.traced import SYMBOLS, Traced


class Value(Traced):
    """Stands for an array or tensor: operators take it, and it can be sliced and reshaped.

    A slice must lie within the tensor at every size: `x[:5]` needs 5 rows or more.
    """

    __slots__ = ()

    def _text(self) -> str:
        name, kind, _, _ = self._tracer.describe(self._id)
        return f"{name}, {kind}"

    def __repr__(self) -> str:
        return self._text()

    __hash__ = object.__hash__

    @property
    def dtype(self) -> Any:
        """The dtype as NumPy has it."""
        return _anyop.numpy_dtype(self._tracer.describe(self._id)[2])

    @property
    def shape(self) -> tuple[Any, ...]:
        """Numbers where they are known, else `Size`s."""
        return tuple(Size.of(self._tracer, n) for n in self._tracer.describe(self._id)[3])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        elements: Any = 1
        for n in self.shape:
            elements = elements * n
        return elements

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        if not isinstance(self.shape[0], int):
            self._refuse(f"asks for the len() of {self._text()}")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        if not self.shape or not isinstance(self.shape[0], int):
            self._refuse(f"iterates over {self._text()}")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Value:
        value, dimension = self, 0
        dropped, added = [], []
        for item in _expanded(self, index):
            if item is None:
                added.append(dimension)
                continue
            begin, end = _bounds(self, item, value.shape[dimension])
            value = value._slice(dimension, begin, end)
            if not isinstance(item, slice):
                dropped.append(dimension)
            dimension += 1
        if not dropped and not added:
            return value
        shape: list[Any] = []
        for d in range(value.ndim + 1):
            shape += [1] * added.count(d)
            if d < value.ndim and d not in dropped:
                shape.append(value.shape[d])
        return value.reshape(shape)

    def _slice(self, dimension: int, begin: Any, end: Any) -> Value:
        # As texts: a Size refuses == with a size from which it may differ.
        if str(begin) == "0" and str(end) == str(self.shape[dimension]):
            return self
        return Value(self._tracer, self._tracer.slice(self._id, dimension, begin, end))

    def reshape(self, *shape: Any) -> Value:
        """The same elements in another shape, without a copy; one size may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        unknown = [i for i, n in enumerate(shape) if isinstance(n, int) and n == -1]
        if len(unknown) == 1:
            others: Any = 1
            for n in shape[: unknown[0]] + shape[unknown[0] + 1 :]:
                others = others * n
            rest = divide(self._tracer, self.size, others)
            if rest is None:
                shown = ", ".join(str(n) for n in shape)
                raise _anyop.InvalidArgument(
                    f"anyop.graph: {self._tracer.place()} reshapes {self._text()} to [{shown}], "
                    f"but {self.size} elements are no multiple of {others}."
                )
            shape = (*shape[: unknown[0]], rest, *shape[unknown[0] + 1 :])
        if [str(n) for n in shape] == [str(n) for n in self.shape]:
            return self
        return Value(self._tracer, self._tracer.reshape(self._id, shape))

    def swapaxes(self, a: int, b: int) -> Value:
        """Two dimensions exchanged, without a copy."""
        a, b = a % self.ndim, b % self.ndim
        return self if a == b else Value(self._tracer, self._tracer.transpose(self._id, a, b))

    def transpose(self, *axes: Any) -> Value:
        """The dimensions in this order, as NumPy's transpose takes it; reversed without one."""
        if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
            axes = tuple(axes[0])
        wanted = [a % self.ndim for a in axes] or list(reversed(range(self.ndim)))
        if sorted(wanted) != list(range(self.ndim)):
            raise _anyop.InvalidArgument(
                f"anyop.graph: {self._tracer.place()} transposes {self._text()} by {axes}, but "
                f"each of its {self.ndim} dimensions must be named once."
            )
        value, now = self, list(range(self.ndim))
        for i, axis in enumerate(wanted):
            k = now.index(axis)
            value = value.swapaxes(i, k)
            now[i], now[k] = now[k], now[i]
        return value

    @property
    def T(self) -> Value:  # noqa: N802
        return self.transpose()

    def item(self) -> Any:
        self._refuse(f"asks for the elements of {self._text()}")

    def tolist(self) -> Any:
        self._refuse(f"asks for the elements of {self._text()}")

    def __contains__(self, _: Any) -> bool:
        self._refuse(f"asks for the elements of {self._text()}")

    def __setitem__(self, _: Any, __: Any) -> None:
        self._refuse_foreign("Python's [] =", "")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these itself, and goes on without them
            raise AttributeError(name)
        self._refuse_foreign(f".{name}", name)


def _expanded(value: Value, index: Any) -> list[Any]:
    """One item per dimension, and None for each new one."""
    items = list(index) if isinstance(index, tuple) else [index]
    for item in items:
        if not (item is None or item is Ellipsis or isinstance(item, (slice, int, Size))):
            value._refuse_foreign("indexing", "")
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > value.ndim:
        raise IndexError(f"{value._text()} has {value.ndim} dimensions, but {used} are indexed")
    # Without sizes: `in` compares by ==, which a Size refuses to answer.
    if Ellipsis not in [i for i in items if not isinstance(i, (Size, slice))]:
        items.append(Ellipsis)
    at = next(i for i, item in enumerate(items) if item is Ellipsis)
    items[at : at + 1] = [slice(None)] * (value.ndim - used)
    return items


def _is_negative(value: Value, n: Any) -> bool:
    """Whether every term of n is negative, as in -1 or -2*n: then it counts from the end."""
    factors = [factor for factor, _ in value._tracer.terms(n)]
    return bool(factors) and all(factor < 0 for factor in factors)


def _bounds(value: Value, item: Any, size: Any) -> tuple[Any, Any]:
    """Begin and end of a slice or index, from the front."""

    def from_front(n: Any) -> Any:
        return size + n if _is_negative(value, n) else n

    if not isinstance(item, slice):
        begin = from_front(item)
        if isinstance(size, int) and isinstance(begin, int) and not 0 <= begin < size:
            raise IndexError(f"index {item} is out of bounds for a dimension of size {size}")
        return begin, begin + 1
    if item.step not in (None, 1):
        value._refuse_foreign(f"a slice with step {item.step}", "")
    if isinstance(size, int) and not any(isinstance(n, Size) for n in (item.start, item.stop)):
        begin, end, _ = item.indices(size)
        return begin, max(begin, end)
    begin = 0 if item.start is None else from_front(item.start)
    end = size if item.stop is None else from_front(item.stop)
    return begin, end


def _foreign(name: str) -> Any:
    def refuse(self: Value, *_: Any) -> Any:
        self._refuse_foreign(f"Python's {SYMBOLS[name]}", name)

    return refuse


for _name in SYMBOLS:
    for _prefix in ("", "r", "i"):
        setattr(Value, f"__{_prefix}{_name}__", _foreign(_name))
