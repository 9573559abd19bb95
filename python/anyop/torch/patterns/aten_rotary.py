# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding as models write it: x*cos + turned(x)*sin.

`turned` is cat(-x2, x1) for x = (x1, x2), or the same of each pair of neighbours; cos and sin hold
each number twice, accordingly. Neither is looked at: what is found is tried (proof.py).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.fx import after, call, number, only_user, put
from anyop.torch._nodes.memory import Writes
from anyop.torch._nodes.sizes import is_same
from anyop.torch._proof import proof
from anyop.torch._proof.fragment import Fragment
from anyop.torch._proof.trials import Trial
from anyop.torch.patterns.aten_composites import rotary_table, rotated

_aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default, _aten.chunk.default)
_PLAIN = (_aten.alias.default, _aten.detach.default)


def fuse(graph: Graph) -> None:
    tables: dict[Any, Node] = {}
    writes = Writes(graph)
    for node in list(graph.nodes):
        if node.target is _aten.add.Tensor and not node.kwargs and _is_heads(node):
            _Rotation(graph, writes, tables).find(node)


def _is_heads(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == 4 and value.dtype in _FLOATS


class _Rotation:
    def __init__(self, graph: Graph, writes: Writes, tables: dict[Any, Node]) -> None:
        self.graph, self.writes, self.tables = graph, writes, tables

    def find(self, add: Node) -> None:
        for straight, turned in (add.args, add.args[::-1]):
            for x, cos, sin in _factors(straight, turned):
                head = _head_dimension(x, cos, sin)
                for style in ("neox", "gptj") if head else ():
                    for last, whole in _wholes(add, x):
                        if self.replace(last, whole, cos, sin, head, style):
                            return

    def replace(self, last: Node, x: Node, cos: Node, sin: Node, head: int, style: str) -> bool:
        """x rotated, for the node that holds all of it."""
        leaves = [n for n in dict.fromkeys(_leaf(n) for n in (cos, sin))
                  if folded(self.graph.owning_module, n) is None]  # fmt: skip
        if x in leaves or any(self.writes.at_all(n) for n in (cos, sin, *leaves)):
            return False
        wide = last.meta["val"].dtype

        def replacement(trial: Trial) -> Any:
            x = trial.tensors[0]
            given = trial.of(trial.tensors[1:])
            rows = [Fragment(n, leaves).run(given).select(head, 0) for n in (cos, sin)]
            table = rotary_table(rows[0], rows[1], x.shape[0], style)
            return rotated(x.to(wide), table, head, style)

        nodes = Fragment(last, [x, *leaves]).nodes
        name = f"rotated {style} {head} {[nodes.index(n) for n in (cos, sin) if n in nodes]}"
        if not proof.holds(last, [x, *leaves], replacement, name, self.writes):
            return False
        table = self.table(x, cos, sin, leaves, head, style)
        if table is None:
            return False
        if x.meta["val"].dtype != wide:
            x = call(self.graph, _aten._to_copy.default, (x,), last, dtype=wide)
        put(self.graph, last, rotated, (x, table, head, style), self.writes)
        return True

    def table(
        self, x: Node, cos: Node, sin: Node, leaves: list[Node], head: int, style: str
    ) -> Node | None:
        """One for all that are rotated by the same, which each layer may compute for itself."""
        behind = after(self.graph, cos, sin)
        batch = number(self.graph, x.meta["val"].shape[0], behind)
        rows = [_row(n, head) for n in (cos, sin)]
        same = [Fragment(n, leaves).text() for n in rows]
        key = (*leaves, *same, batch, head, style)
        if batch is not None and key not in self.tables:
            rows = [
                call(self.graph, _aten.select.int, (n, head, 0), behind)
                if n.meta["val"].dim() == 4
                else n
                for n in rows
            ]
            self.tables[key] = call(self.graph, rotary_table, (*rows, batch, style), behind)
        return self.tables.get(key)


def _factors(straight: Any, turned: Any) -> list[tuple[Node, Node, Node]]:
    """(x, cos, sin) of x*cos and f(x)*sin."""
    for node in (straight, turned):
        if not (isinstance(node, Node) and node.target is _aten.mul.Tensor):
            return []
    found = []
    for x, cos in (straight.args, straight.args[::-1]):
        for made, sin in (turned.args, turned.args[::-1]):
            is_table = _is_heads(cos) and _is_heads(sin) and made is not x
            if is_table and _is_heads(x) and _is_heads(made):
                found.append((x, cos, sin))
    return found


def _row(table: Node, head: int) -> Node:
    """The table as [b, t, d], if a program has that: each layer adds the dimension of heads."""
    args: Any = table.args
    is_new = table.target is _aten.unsqueeze.default and args[1] % 4 == head
    return args[0] if is_new else table


def _leaf(node: Node) -> Node:
    """The tensor that a table is computed from, through calls that read one tensor each."""
    while node.op == "call_function":
        sources = [n for n in node.all_input_nodes
                   if isinstance(n.meta.get("val"), torch.Tensor)
                   and folded(n.graph.owning_module, n) is None]  # fmt: skip
        if len(sources) != 1 or not sources[0].meta["val"].dim():
            break
        node = sources[0]
    return node


def _head_dimension(x: Node, cos: Node, sin: Node) -> int:
    """The dimension of x [b, h, t, d] or [b, t, h, d] over which cos and sin are repeated: 1 in
    their shapes; 0 if it is unclear."""
    b, *middle, d = x.meta["val"].shape
    found = {1, 2}
    for node in (cos, sin):
        rows, *sizes, width = node.meta["val"].shape
        if not is_same(width, d) or not (is_same(rows, 1) or is_same(rows, b)):
            return 0
        found &= {h for h in (1, 2)
                  if is_same(sizes[h - 1], 1) and is_same(sizes[2 - h], middle[2 - h])}  # fmt: skip
    return min(found, default=0)


def _wholes(add: Node, x: Node) -> list[tuple[Node, Node]]:
    """(node of the result, whole heads), where only the first elements of heads are rotated and the
    program joins the rest to them; then (add, x), the rotated elements alone."""
    user = only_user(add)
    rows = [(add, x)]
    if user is None or user.target is not _aten.cat.default:
        return rows
    whole: Any = x
    if x.target is operator.getitem:
        parts: Any = x.args[0]
        whole = parts.args[0] if parts.target in _SPLITS else x
    elif x.target is _aten.slice.Tensor:
        whole = x.args[0]
    while whole.target in _PLAIN:
        whole = whole.args[0]
    return [(user, whole), *rows] if whole is not x else rows
