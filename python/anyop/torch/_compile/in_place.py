# SPDX-License-Identifier: Apache-2.0
"""Lowers functionalized mutation back to writes in place.

AOTAutograd turns a program that writes into one that does not: each write makes a new tensor, and
at the end the inputs are overwritten by what became of them. Here a write goes to the memory of
what it replaces wherever nobody reads the old contents afterwards, and to a clone elsewhere.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.auto_functionalize import (
    AliasViewInfo,
    AsStridedViewInfo,
    NotView,
    SliceViewInfo,
    auto_functionalized_v2,
    get_mutable_args_from_schema,
    read_view_information_from_args,
)
from torch.fx import GraphModule, Node

from anyop.torch._nodes.memory import (
    Roots,
    is_impure,
    is_in_place,
    nodes_in,
    schema_of,
    viewed_by,
)

_aten = torch.ops.aten

# Functional updates of a few elements of their first argument, and what updates it in place.
_UPDATES: dict[Any, Any] = {
    getattr(getattr(_aten, name), overload): getattr(getattr(_aten, name + "_"), overload)
    for name, overload in [
        ("index_put", "default"), ("index_copy", "default"), ("index_add", "default"),
        ("index_fill", "int_Scalar"), ("index_fill", "int_Tensor"), ("scatter", "src"),
        ("scatter", "value"), ("scatter_add", "default"), ("masked_scatter", "default"),
    ]
}  # fmt: skip
_OUTER = ("placeholder", "get_attr")  # what outlives a call
_VIEWS = (_aten.slice.Tensor, _aten.select.int, _aten.as_strided.default)
_ALIKE = (_aten.view.default, _aten._unsafe_view.default, _aten.alias.default,
          _aten.detach.default, _aten.unsqueeze.default, _aten.squeeze.dim)  # fmt: skip
# Those that replace a view of it: the operator that makes the view takes the same arguments.
_REPLACES: dict[Any, Any] = {
    _aten.slice_scatter.default: _aten.slice.Tensor,
    _aten.select_scatter.default: _aten.select.int,
}


def lower_mutation(
    module: GraphModule, is_writable: Callable[[Node], bool], is_frugal: bool = True
) -> list[Node]:
    """Rewrites the graph. is_writable: whether an input may be written in place.

    is_frugal: writes go to the memory that they replace; without it, only what must be lowered is.
    Returns the inputs whose last write is left to the caller. Their final values are returned by
    the graph, behind what it returns anyway.
    """
    return _Lowering(module, is_writable, is_frugal).run()


class _Lowering:
    def __init__(
        self, module: GraphModule, is_writable: Callable[[Node], bool], is_frugal: bool
    ) -> None:
        self.graph = module.graph
        self.is_writable, self.is_frugal = is_writable, is_frugal
        self.roots = Roots(self.graph)
        self.place = {node: i for i, node in enumerate(self.graph.nodes)}
        self.final: dict[Node, Node] = {}  # by input: the copy_ that overwrites it at the end
        for node in self.graph.nodes:
            if node.target is _aten.copy_.default and node.args[0].op in _OUTER:
                self.final[node.args[0]] = node

    def run(self) -> list[Node]:
        for node in list(self.graph.nodes):
            if node.op != "call_function":
                continue
            if node.target is auto_functionalized_v2:
                self.functionalized(node)
            elif self.ends_in_an_input(node) or self.is_of_its_own(node):
                if node.target in _UPDATES:
                    self.update(node)
                elif node.target in _REPLACES:
                    self.replace_view(node)
        self.ends = set(self.final.values())
        left = [row for row in map(self.finish, list(self.final.values())) if row]
        (output,) = (n for n in self.graph.nodes if n.op == "output")
        output.args = ((*output.args[0], *(source for _, source in left)),)
        self.graph.eliminate_dead_code(is_impure_node=is_impure)
        self.graph.lint()
        return [target for target, _ in left]

    def ends_in_an_input(self, node: Node) -> bool:
        """Whether an update is of an input that is overwritten at the end, and may be so in place:
        only such chains are worth it."""
        if not self.is_frugal or (node.target not in _UPDATES and node.target not in _REPLACES):
            return False
        root = self.roots[nodes_in(node.args[0])[0]]
        return root in self.final and self.is_writable(root)

    def is_of_its_own(self, node: Node) -> bool:
        """Whether the tensor that is updated was made for this update alone."""
        if not self.is_frugal or node.target not in _UPDATES:
            return False
        base = nodes_in(node.args[0])[0]
        is_new = base.op == "call_function" and self.roots[base] is base
        return is_new and list(base.users) == [node]

    def may_overwrite(self, base: Node, update: Node) -> bool:
        """Whether nobody reads what was there before the update after it."""
        if not self.is_frugal:
            return False
        root = self.roots[base]
        if root.op in _OUTER and not (root in self.final and self.is_writable(root)):
            return False
        at, final = self.place[update], self.final.get(root)
        for node in self.graph.nodes:
            if node not in self.place or self.place[node] >= at or self.roots[node] is not root:
                continue
            for user in node.users:
                is_end = final is not None and final is user and final.args[0] is node
                if self.place.get(user, -1) > at and not is_end:
                    return False
        return True

    def base_to_write(self, base: Node, update: Node, source: Any = ()) -> Node:
        """source: what is written, which must not be part of what it is written to."""
        is_apart = all(self.roots[n] is not self.roots[base] for n in nodes_in(source))
        if is_apart and self.may_overwrite(base, update):
            return base
        return self.call(_aten.clone.default, (base,), update)

    def call(self, target: Any, args: tuple[Any, ...], before: Node, **kwargs: Any) -> Node:
        """A new node, which takes the place of `before` in what comes before what."""
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {
            k: v for k, v in before.meta.items() if k in ("stack_trace", "nn_module_stack")
        }
        node.meta["val"] = self.result_of(node, before)
        self.place[node] = self.place[before]
        self.roots.add(node)
        return node

    def result_of(self, node: Node, before: Node) -> Any:
        """The fake result of a new node, which is made for `before`."""
        source = viewed_by(node)
        if node.target in _VIEWS:
            values: Any = torch.fx.node.map_arg(node.args, lambda n: n.meta["val"])
            target: Any = node.target
            with detect_fake_mode(values) or contextlib.nullcontext():
                return target(*values)
        if source is not None or node.target is _aten.clone.default:
            return (source or nodes_in(node.args)[0]).meta["val"]
        n = len(schema_of(node).returns)  # of what was functionalized
        value = before.meta["val"]
        return value[0] if n == 1 else tuple(value[:n])

    def replace(self, node: Node, by: Node) -> None:
        node.replace_all_uses_with(by)
        self.graph.erase_node(node)
        self.roots.join(node, by)

    def update(self, node: Node) -> None:
        base = self.base_to_write(nodes_in(node.args[0])[0], node, node.args[1:])
        made = self.call(_UPDATES[node.target], (base, *node.args[1:]), node, **node.kwargs)
        self.replace(node, made)

    def replace_view(self, node: Node) -> None:
        source = nodes_in(node.args[1])[0]
        if source.target is _aten.copy.default and len(source.users) == 1:
            source = nodes_in(source.args[1])[0]
        base = self.base_to_write(nodes_in(node.args[0])[0], node, source)
        view = self.call(_REPLACES[node.target], (base, *node.args[2:]), node, **node.kwargs)
        self.call(_aten.copy_.default, (view, source), node)
        self.replace(node, base)

    def functionalized(self, node: Node) -> None:
        op: Any = node.args[0]
        kwargs = dict(node.kwargs)
        old: list[Any] = kwargs.pop("_all_bases")  # type: ignore[assignment]
        names, types = get_mutable_args_from_schema(op._schema)
        if torch.Tag.out in op.tags:
            return self.functionalized_out(node, op, names, kwargs)
        views = read_view_information_from_args(names, types, kwargs, old)
        bases = [None if base is None else self.base_to_write(base, node) for base in old]
        for name, view in views.items():
            many = isinstance(view, list)
            made = [self.view_of(bases, v, node) for v in (view if many else [view])]
            kwargs[name] = made if many else made[0]
        call = self.call(op, (), node, **kwargs)
        n = len(op._schema.returns)
        # auto_functionalized_v2 returns the operator's results, one None if there are none, and
        # then the bases.
        for user in list(node.users):
            which: Any = user.args[1]
            base = bases[which - (n or 1)] if which >= (n or 1) else None
            if base is not None:
                self.replace(user, base)
            elif n > 1:
                user.replace_input_with(node, call)
            else:
                self.replace(user, call)
        self.graph.erase_node(node)
        return None

    def functionalized_out(self, node: Node, op: Any, names: Any, kwargs: dict[str, Any]) -> None:
        """An `out` variant whose results are new tensors: nothing was there before the write."""
        value = node.meta["val"]
        for i, name in enumerate(names):
            size, stride = kwargs.pop(f"_{name}_size"), kwargs.pop(f"_{name}_stride")
            dtype, device = kwargs.pop(f"_{name}_dtype"), kwargs.pop(f"_{name}_device")
            with self.graph.inserting_before(node):
                kwargs[name] = self.graph.call_function(
                    _aten.empty_strided.default, (size, stride), {"dtype": dtype, "device": device}
                )
            kwargs[name].meta["val"] = value[i] if isinstance(value, (tuple, list)) else value
            self.place[kwargs[name]] = self.place[node]
            self.roots.add(kwargs[name])
        made = self.call(op, (), node, **kwargs)
        if len(names) == 1 and not any(u.target is operator.getitem for u in node.users):
            node.replace_all_uses_with(kwargs[names[0]])
        for user in list(node.users):
            self.replace(user, kwargs[names[user.args[1]]])
        self.graph.erase_node(node)
        made.meta.setdefault("val", None)

    def view_of(self, bases: list[Any], view: Any, node: Node) -> Node | None:
        if view is None:
            return None
        base: Node = bases[view.base_index]
        if isinstance(view, (NotView, AliasViewInfo)):
            return base
        if isinstance(view, SliceViewInfo):
            return self.call(_aten.slice.Tensor, (base, view.dim, view.start, view.end), node)
        assert isinstance(view, AsStridedViewInfo)
        args = (base, list(view.size), list(view.stride), view.storage_offset)
        return self.call(_aten.as_strided.default, args, node)

    def finish(self, copy: Node) -> Any:
        """An input's last write: nothing, if its memory holds the value already."""
        target, source = nodes_in(copy.args[0])[0], nodes_in(copy.args[1])[0]
        copy.replace_all_uses_with(target)  # copy_ returns what it wrote
        if _whole(source) is target:
            self.graph.erase_node(copy)
            return None
        if self.roots[source] in self.final:  # an input as it was, which is written at the end
            first = next(n for n in self.graph.nodes if n in self.ends)
            made = self.call(_aten.clone.default, (source,), first)
            copy.replace_input_with(source, made)
            source = made
        if self.is_writable(target):
            return None
        self.graph.erase_node(copy)
        return target, source


def _whole(node: Node) -> Node:
    """The node that a chain of writes in place, and of views of all elements in order, begins
    with."""
    while node.op == "call_function" and (node.target in _ALIKE or is_in_place(node)):
        source = viewed_by(node)
        if source is None:
            break
        node = source
    return node
