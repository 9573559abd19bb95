# SPDX-License-Identifier: Apache-2.0
"""Views of torch as views of a graph: the same elements in another shape or order, uncopied."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from anyop.torch._nodes.converters import view
from anyop.torch._nodes.memory import is_laid_out_from_zero
from anyop.torch._nodes.sizes import Unconverted, expression, is_same

_aten = torch.ops.aten
Sizes = Any  # anyop.torch._nodes.sizes.Sizes
Value = Any  # anyop._graph.value.Value


def _shape(node: Node, sizes: Sizes) -> list[Any]:
    return [sizes(n) for n in node.meta["val"].shape]


def _dimension(node: Node, dim: Any) -> int:
    source = node.args[0]
    assert isinstance(source, Node)
    rank: int = source.meta["val"].dim()
    return int(dim) % max(rank, 1)


@view(_aten.view.default)
@view(_aten._unsafe_view.default)
@view(_aten.reshape.default)
@view(_aten.unsqueeze.default)
@view(_aten.squeeze.default)
@view(_aten.squeeze.dim)
@view(_aten.squeeze.dims)
def reshape(node: Node, x: Value, sizes: Sizes) -> Value:
    return x.reshape(_shape(node, sizes))


@view(_aten.alias.default)
@view(_aten.detach.default)
@view(_aten.lift_fresh.default)
def alias(node: Node, x: Value, sizes: Sizes) -> Value:
    return x


@view(_aten.expand.default)
def expand(node: Node, x: Value, sizes: Sizes) -> Value:
    """Refuses to repeat elements: a graph has no stride 0. So only dimensions of size 1 are new."""
    shape = _shape(node, sizes)
    if [str(n) for n in shape if str(n) != "1"] != [str(n) for n in x.shape if str(n) != "1"]:
        raise Unconverted("expand repeats elements")
    return x.reshape(shape)


@view(_aten.t.default)
def t(node: Node, x: Value, sizes: Sizes) -> Value:
    return x if x.ndim < 2 else x.swapaxes(0, 1)


@view(_aten.transpose.int)
def transpose(node: Node, x: Value, sizes: Sizes) -> Value:
    _, a, b = node.args
    return x.swapaxes(_dimension(node, a), _dimension(node, b)) if x.ndim else x


@view(_aten.permute.default)
def permute(node: Node, x: Value, sizes: Sizes) -> Value:
    dims: Any = node.args[1]
    return x.transpose([_dimension(node, d) for d in dims]) if x.ndim else x


def _cut(x: Value, dim: int, begin: Any, end: Any) -> Value:
    return x[(slice(None),) * dim + (slice(begin, end),)]


def _number(argument: Any) -> Any:
    """An int or SymInt of an argument, which may be a node."""
    return argument.meta["val"] if isinstance(argument, Node) else argument


@view(_aten.slice.Tensor)
def slice_(node: Node, x: Value, sizes: Sizes) -> Value:
    given: list[Any] = list(node.args[1:])
    dim, begin, _, step = given + [0, None, None, 1][len(given) :]
    if _number(step) != 1:
        raise Unconverted("a slice with a step")
    d = _dimension(node, dim)
    source: Any = node.args[0]
    n, length = source.meta["val"].shape[d], node.meta["val"].shape[d]
    first = expression(_number(0 if begin is None else begin))
    if isinstance(first, int) and first < 0:
        first = expression(n) + first
        if isinstance(first, int):
            first = max(first, 0)
    if isinstance(first, int) and isinstance(expression(n), int):
        first = min(first, expression(n))
    return _cut(x, d, sizes(first), sizes(first + expression(length)))


@view(_aten.select.int)
def select(node: Node, x: Value, sizes: Sizes) -> Value:
    d = _dimension(node, node.args[1])
    source: Any = node.args[0]
    index = expression(_number(node.args[2]))
    if isinstance(index, int) and index < 0:
        index = expression(source.meta["val"].shape[d]) + index
    return _cut(x, d, sizes(index), sizes(index + 1)).reshape(_shape(node, sizes))


def _parts(node: Node, x: Value, sizes: Sizes) -> list[Value]:
    """The parts that a dimension is split into, as long as torch says they are."""
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    d, begin, parts = _dimension(node, dim), 0, []
    for part in node.meta["val"]:
        end = begin + expression(part.shape[d])
        parts.append(_cut(x, d, sizes(begin), sizes(end)))
        begin = end
    return parts


for _split in (_aten.split.Tensor, _aten.split_with_sizes.default, _aten.chunk.default):
    view(_split)(_parts)


@view(_aten.unbind.int)
def unbind(node: Node, x: Value, sizes: Sizes) -> list[Value]:
    d = _dimension(node, node.args[1] if len(node.args) > 1 else 0)
    shapes = [[sizes(n) for n in part.shape] for part in node.meta["val"]]
    return [_cut(x, d, i, i + 1).reshape(shape) for i, shape in enumerate(shapes)]


@view(operator.getitem)
def getitem(node: Node, x: Any, sizes: Sizes) -> Value:
    index: Any = node.args[1]
    return x[index]


@view(_aten.as_strided.default)
def as_strided(node: Node, x: Value, sizes: Sizes) -> Value:
    """A slice of each dimension of the contiguous source; it may be split into several."""
    source: Any = node.args[0]
    base = source.meta["val"]
    if not is_laid_out_from_zero(source):
        raise Unconverted("as_strided of a view")
    size, stride = ([_number(n) for n in many] for many in node.args[1:3])  # type: ignore[union-attr]
    offset = expression(_number(node.args[3] if len(node.args) > 3 else 0) or 0)
    left = [(n, s) for n, s in zip(size, stride, strict=True) if not is_same(n, 1)]
    for d in range(base.dim()):
        pitch = expression(base.stride(d))
        mine = _dimensions_of(left, pitch, d == base.dim() - 1)
        left = left[len(mine) :]
        length: Any = 1
        for n, s in reversed(mine):
            if not is_same(s, pitch * length):
                raise Unconverted("as_strided with gaps")
            length = length * expression(n)
        begin = 0
        if isinstance(offset, int) and isinstance(pitch, int) and pitch:
            begin, offset = divmod(offset, pitch)
        x = _cut(x, d, sizes(begin), sizes(begin + length))
    if left or not is_same(offset, 0):
        raise Unconverted("as_strided in another order")
    return x.reshape(_shape(node, sizes))


def _dimensions_of(left: Sequence[Any], pitch: Any, is_last: bool) -> list[Any]:
    """The first of these (size, stride) that lie within a dimension of this stride."""
    mine = []
    for n, s in left:
        step = expression(s)
        if is_last or is_same(step, pitch) or (
            isinstance(step, int) and isinstance(pitch, int) and step >= pitch > 0
        ):  # fmt: skip
            mine.append((n, s))
        else:
            break
    return mine
