# SPDX-License-Identifier: Apache-2.0
"""What the nodes of an FX graph do with memory: which write their arguments, which are views."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._higher_order_ops.effects import has_effects
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from anyop.torch._nodes.sizes import expression

# _unsafe_view shares its argument's memory though its schema does not say so: torch makes one only
# where nobody uses the argument again.
_UNSAFE_VIEWS = frozenset({torch.ops.aten._unsafe_view.default})

# Each copies its first argument's memory together with what lies before it, which as_strided of the
# copy may read. The fake of the copy begins at its elements.
_IN_COPIES = frozenset(
    getattr(torch.ops.aten, name).default
    for name in ("copy", "select_scatter", "slice_scatter", "diagonal_scatter",
                 "as_strided_scatter")
)  # fmt: skip

_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def schema_of(node: Node) -> Any:
    """The schema of a torch operator, or of a function that has one; None for other code."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema
    return getattr(node.target, "schema", None)


def arguments_of(node: Node) -> Iterator[tuple[Any, Any]]:
    """(parameter of the schema, what is passed) for all that is passed."""
    for i, parameter in enumerate(schema_of(node).arguments):
        if i < len(node.args) and not parameter.kwarg_only:
            yield parameter, node.args[i]
        elif parameter.name in node.kwargs:
            yield parameter, node.kwargs[parameter.name]


def nodes_in(argument: Any) -> list[Node]:
    return [leaf for leaf in pytree.tree_leaves(argument) if isinstance(leaf, Node)]


def written_by(node: Node) -> list[Node]:
    """The arguments that a node writes."""
    if schema_of(node) is None:
        return []
    return [
        n
        for parameter, value in arguments_of(node)
        if parameter.alias_info is not None and parameter.alias_info.is_write
        for n in nodes_in(value)
    ]


def is_laid_out_from_zero(node: Node) -> bool:
    """Whether torch's memory of a node begins with its elements and has them in order."""
    while node.target in _IN_COPIES:
        node = nodes_in(node.args[0])[0]
    value = node.meta["val"]
    return bool(value.is_contiguous()) and expression(value.storage_offset()) == 0


def viewed_by(node: Node) -> Node | None:
    """The argument whose memory a node's result shares; None if it has memory of its own."""
    if node.target is operator.getitem:
        source = node.args[0]
        assert isinstance(source, Node)
        return _shared(source, int(node.args[1]))  # type: ignore[arg-type]
    if node.target in _UNSAFE_VIEWS:
        return nodes_in(node.args[0])[0]
    return _shared(node, 0)


def _shared(node: Node, result: int) -> Node | None:
    schema = schema_of(node)
    if schema is None or not schema.returns:
        return None
    # A list of any length is one return of the schema.
    returned = schema.returns[result if result < len(schema.returns) else 0].alias_info
    if returned is None:
        return None
    # Of a list, "Tensor(a)[]", torch tells no names; its source is "Tensor(a -> *)".
    names = returned.before_set | returned.after_set or {"*"}
    for parameter, value in arguments_of(node):
        alias = parameter.alias_info
        if alias is not None and (alias.before_set | alias.after_set) & names:
            found = nodes_in(value)
            return found[0] if found else None
    return None


def is_in_place(node: Node) -> bool:
    """Whether a node returns what it wrote."""
    source = viewed_by(node)
    made_by = node.args[0] if node.target is operator.getitem else node
    return source is not None and isinstance(made_by, Node) and source in written_by(made_by)


def is_same_view(a: Any, b: Any) -> bool:
    """Whether two nodes are the same elements of the same memory, as far as their calls tell."""
    if not isinstance(a, Node) or not isinstance(b, Node):
        return False
    a, b = _written(a), _written(b)
    if a is b:
        return True
    is_alike = a.op == b.op == "call_function" and a.target is b.target and a.kwargs == b.kwargs
    if not is_alike or viewed_by(a) is None or a.args[1:] != b.args[1:]:
        return False
    return is_same_view(viewed_by(a), viewed_by(b))


def _written(node: Node) -> Node:
    """The argument behind a chain of nodes that write it and return it; other nodes themselves."""
    while node.op == "call_function" and is_in_place(node):
        source = viewed_by(node)
        assert source is not None
        node = source
    return node


def is_random(node: Node) -> bool:
    """Whether a node must run once per call, at its place, whatever its arguments are."""
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    return False


def draws(node: Node) -> bool:
    """Whether a node draws random numbers; attention does only for its dropout."""
    is_attention = node.target is _ATTENTION and not (node.args[3:4] or (0,))[0]
    return is_random(node) and not is_attention


def random_or_effect(node: Node) -> bool:
    """Whether a node does more than to compute its results from its arguments."""
    if is_random(node) or has_effects(node.target):
        return True
    value = node.meta.get("val")
    # A node that writes nothing and returns no tensor runs for its effect, as an assertion does.
    return not written_by(node) and not tensors_in(value)


def is_impure(node: Node) -> bool:
    """Whether a node must stay though nobody reads its results."""
    return bool(written_by(node)) or node.is_impure()


def tensors_in(value: Any) -> list[torch.Tensor]:
    many = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in many if isinstance(v, torch.Tensor)]


class Roots:
    """By node: the node that made the memory which its value lies in."""

    def __init__(self, graph: Graph) -> None:
        self._root: dict[Node, Node] = {}
        for node in graph.nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        source = viewed_by(node) if node.op == "call_function" else None
        self._root[node] = node if source is None else self._root[source]

    def join(self, node: Node, other: Node) -> None:
        """What lay in node's memory lies in other's from now on."""
        old, new = self._root[node], self._root[other]
        self._root.update({n: new for n, root in self._root.items() if root is old})

    def replace(self, node: Node, made: Node) -> None:
        """Takes made for what node was."""
        self._root[made] = self._root[node]

    def __getitem__(self, node: Node) -> Node:
        return self._root[node]


class Writes:
    """What a graph writes, and where: for passes that read a value later than the program did."""

    def __init__(self, graph: Graph) -> None:
        self._roots = Roots(graph)
        self._place = {node: i for i, node in enumerate(graph.nodes)}
        self._writes = [(self._place[node], self._roots[n]) for node in graph.nodes
                        for n in written_by(node)]  # fmt: skip

    def replace(self, node: Node, made: Node) -> None:
        """Takes made for what node was: its uses are made's now."""
        self._roots.replace(node, made)
        self._place[made] = self._place[node]

    def first(self, nodes: list[Node]) -> Node:
        return min(nodes, key=self._place.__getitem__)

    def last(self, nodes: list[Node]) -> Node:
        return max(nodes, key=self._place.__getitem__)

    def between(self, node: Node, first: Node, last: Node) -> bool:
        """Whether a node's memory is written from first on and before last."""
        root = self._roots[node]
        begin, end = self._place[first], self._place[last]
        return any(r is root and begin <= at < end for at, r in self._writes)

    def at_all(self, node: Node) -> bool:
        root = self._roots[node]
        return any(r is root for _, r in self._writes)
