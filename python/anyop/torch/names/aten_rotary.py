# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding as models write it: x*cos + cat(-x2, x1)*sin, for x = (x1, x2)."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from anyop.torch._fx import after, call, only_user, skip
from anyop.torch._memory import Writes, nodes_in
from anyop.torch._sizes import expression, is_same
from anyop.torch.names.aten_composites import rotary_table, rotated

_aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_ELEMENTWISE = (_aten.cos.default, _aten.sin.default, _aten.mul.Tensor, _aten._to_copy.default,
                _aten.alias.default, _aten.clone.default, _aten.unsqueeze.default,
                _aten.mul.Scalar)  # fmt: skip
_SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default, _aten.chunk.default)


def fuse(graph: Graph) -> None:
    tables: dict[Any, Node] = {}
    writes = Writes(graph)
    for node in list(graph.nodes):
        if node.target is _aten.add.Tensor and not node.kwargs:
            _rotation(graph, node, tables, writes)


def _rotation(graph: Graph, add: Node, tables: dict[Any, Node], writes: Writes) -> None:
    for straight, turned in (add.args, add.args[::-1]):
        found = _factors(straight, turned)
        if found is None:
            continue
        x, cos, sin = found
        head = _head_dimension(x, cos, sin)
        batch = expression(x.meta["val"].shape[0])
        if not head or not isinstance(batch, int):
            continue
        cos, sin = nodes_in(cos.args[0])[0], nodes_in(sin.args[0])[0]
        is_doubled = _is_doubled(cos) and _is_doubled(sin)
        if not is_doubled or any(writes.at_all(n) for n in (x, cos, sin)):
            continue
        key = (cos, sin, batch)
        if key not in tables:
            tables[key] = call(graph, rotary_table, key, after(graph, cos, sin))
        last, whole = _with_rest(add, x)
        made = call(graph, rotated, (whole, tables[key], head), last)
        last.replace_all_uses_with(made)
        return


def _factors(straight: Any, turned: Any) -> tuple[Node, Node, Node] | None:
    """(x, cos, sin) of x*cos and cat([-x[h:], x[:h]])*sin."""
    for node in (straight, turned):
        if not (isinstance(node, Node) and node.target is _aten.mul.Tensor):
            return None
    for halves, sin in (turned.args, turned.args[::-1]):
        x = _turned(halves)
        if x is None or x not in straight.args or not isinstance(sin, Node):
            continue
        cos = straight.args[1] if straight.args[0] is x else straight.args[0]
        if isinstance(cos, Node) and x.meta["val"].dtype in _FLOATS and x.meta["val"].dim() == 4:
            return x, cos, sin
    return None


def _turned(node: Any) -> Node | None:
    """x of cat([-x[..., h:], x[..., :h]], -1)."""
    if not (isinstance(node, Node) and node.target is _aten.cat.default):
        return None
    parts: Any = node.args[0]
    if len(parts) != 2 or not _is_last(node, node.args[1] if len(node.args) > 1 else 0):
        return None
    negative, first = parts
    if not (isinstance(negative, Node) and negative.target is _aten.neg.default):
        return None
    second: Any = negative.args[0]
    ends = _part(first), _part(second)
    if ends[0] is None or ends[1] is None or ends[0][0] is not ends[1][0]:
        return None
    x, begin, half = ends[0]
    _, at, rest = ends[1]
    return x if (begin, at) == (0, half) and half == rest else None


def _part(node: Any) -> tuple[Node, int, int] | None:
    """(x, begin, length) of a part of x's last dimension."""
    if not isinstance(node, Node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    length = expression(node.meta["val"].shape[-1])
    if node.target is _aten.slice.Tensor:
        given: list[Any] = [*node.args, *(None, 0, None, None, 1)[len(node.args) :]]
        x, dim, begin, _, step = given
        if not _is_last(node, dim) or step != 1 or not isinstance(begin or 0, int):
            return None
        size = expression(x.meta["val"].shape[-1])
        begin = begin or 0
        return x, begin + size if begin < 0 and isinstance(size, int) else begin, length
    source: Any = node.args[0] if node.target is operator.getitem else None
    if not isinstance(source, Node) or source.target not in _SPLITS:
        return None
    if not _is_last(node, source.args[2] if len(source.args) > 2 else source.kwargs.get("dim", 0)):
        return None
    sizes = [expression(part.shape[-1]) for part in source.meta["val"]]
    whole: Any = source.args[0]
    number: Any = node.args[1]
    return whole, sum(sizes[:number]), length


def _is_last(node: Node, dim: Any) -> bool:
    rank: int = node.meta["val"].dim()
    return isinstance(dim, int) and dim % rank == rank - 1


def _head_dimension(x: Node, cos: Node, sin: Node) -> int:
    """The dimension of x over which cos and sin [1 or b, t, d] are repeated; 0 if it is unclear."""
    if any(n.target is not _aten.unsqueeze.default for n in (cos, sin)):
        return 0
    dims = {n.args[1] % 4 for n in (cos, sin) if isinstance(n.args[1], int)}
    value = x.meta["val"]
    if len(dims) != 1 or dims & {0, 3}:
        return 0
    head = dims.pop()
    for node in (cos, sin):
        table = node.meta["val"]
        is_batch = is_same(table.shape[0], 1) or is_same(table.shape[0], value.shape[0])
        token = 3 - head
        if not is_batch or not is_same(table.shape[token], value.shape[token]):
            return 0
    return head


def _is_doubled(node: Any) -> bool:
    """Whether the halves of the last dimension are surely equal."""
    if not isinstance(node, Node):
        return False
    if node.target is _aten.cat.default:
        parts: Any = node.args[0]
        is_last = _is_last(node, node.args[1] if len(node.args) > 1 else 0)
        return is_last and len(parts) == 2 and parts[0] is parts[1]
    if node.target not in _ELEMENTWISE or len(node.all_input_nodes) != 1:
        return False
    if node.target is _aten.unsqueeze.default and _is_last(node, node.args[1]):
        return False
    return _is_doubled(node.args[0])


def _with_rest(add: Node, x: Node) -> tuple[Node, Node]:
    """What is rotated and what it is part of, where the rest of a head is only put behind it."""
    user = only_user(add)
    part = _part(x)
    if user is None or user.target is not _aten.cat.default or part is None:
        return add, x
    parts: Any = user.args[0]
    is_last = _is_last(user, user.args[1] if len(user.args) > 1 else 0)
    if len(parts) != 2 or parts[0] is not add or not is_last:
        return add, x
    rest = _part(parts[1])
    whole, begin, length = part
    if rest is None or skip(rest[0]) is not skip(whole) or begin != 0 or rest[1] != length:
        return add, x
    is_all = is_same(length + rest[2], whole.meta["val"].shape[-1])
    return (user, whole) if is_all else (add, x)
