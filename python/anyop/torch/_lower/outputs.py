# SPDX-License-Identifier: Apache-2.0
"""What a torch program returns, made of a graph's results and of the program's own arguments.

A program returns tensors of its own, and views: of each other, of its arguments, of tensors that it
was made with. A graph returns contiguous tensors, each with memory of its own. So the graph returns
the memory that results lie in, once, and a recipe per result makes the views, with torch's
operators. That also gives each result the strides that torch gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop.torch._nodes.memory import Roots
from anyop.torch._nodes.sizes import Unconverted, attribute, evaluator, expression, is_same
from anyop.torch._nodes.view_chain import chain

_aten = torch.ops.aten

# Elementwise operators whose fakes have other strides than their results, for some arguments that
# are not contiguous. A result of contiguous arguments is contiguous.
MISTOLD = frozenset({
    _aten.copysign.Tensor, _aten.div.Tensor_mode, _aten.divide.Tensor_mode,
    _aten.float_power.Scalar, _aten.floor_divide.default, _aten.heaviside.default,
    _aten.ldexp.Tensor, _aten.logaddexp.default, _aten.logaddexp2.default,
    _aten.logical_and.default, _aten.logical_or.default, _aten.logical_xor.default,
    _aten.logit_backward.default, _aten.native_dropout_backward.default, _aten.pow.Scalar,
    _aten.rrelu.default, _aten.special_xlog1py.default, _aten.threshold_backward.default,
    _aten.xlogy.Tensor,
})  # fmt: skip

# (results of the graph, arguments of the call): one result of the program
Maker = Callable[[Sequence[Any], Sequence[Any]], Any]


@dataclass
class Result:
    """A tensor that the graph returns, and the sizes and strides that torch gives it."""

    number: int
    fake: Any
    sources: Mapping[Any, str]

    def order(self) -> list[int] | None:
        """The dimensions from the outermost in memory on, where the elements lie without gaps."""
        strides = [expression(s) for s in self.fake.stride()]
        sizes = [expression(n) for n in self.fake.shape]
        wide = [d for d in range(len(sizes)) if not is_same(sizes[d], 1)]
        # Symbolic strides have no order; then the dimensions must lie in their own.
        if all(isinstance(strides[d], int) for d in wide):
            wide.sort(key=lambda d: -strides[d])
        pitch: Any = 1
        for d in reversed(wide):
            if not is_same(strides[d], pitch):
                return None
            pitch = pitch * sizes[d]
        if wide == sorted(wide):
            return list(range(len(sizes)))
        return [*[d for d in range(len(sizes)) if d not in wide], *wide]

    def restrided(self) -> Maker:
        """The result in memory of torch's strides, which leave gaps or depend on sizes."""
        sizes = [evaluator(n, self.sources) for n in self.fake.shape]
        strides = [evaluator(n, self.sources) for n in self.fake.stride()]

        def make(outs: Sequence[Any], args: Sequence[Any]) -> Any:
            size, stride = [f(args) for f in sizes], [f(args) for f in strides]
            made = outs[self.number]
            if made.stride() == tuple(stride):
                return made
            return torch.empty_strided(size, stride, dtype=made.dtype).copy_(made)

        return make


def permuted(number: int, order: list[int]) -> Maker:
    """The graph's result whose dimensions lie in this order, with them put back."""
    back = [order.index(d) for d in range(len(order))]
    return lambda outs, args: outs[number].permute(back)


@dataclass
class Recipes:
    """Per result of the program a Maker, or the number of the graph's result that it is."""

    makers: list[Maker | int]
    results: list[Result]
    roots: list[Node]  # which nodes the results are


class Returned:
    """Makes a program's results of what its graph returned. fixes: by result of the graph."""

    def __init__(self, makers: list[Maker | int], fixes: list[Maker | None]) -> None:
        self._makers, self._fixes = makers, fixes
        self.is_plain = makers == list(range(len(fixes))) and not any(fixes)

    def __call__(self, outs: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        if any(self._fixes):
            outs = [
                out if fix is None else fix(outs, args)
                for out, fix in zip(outs, self._fixes, strict=False)
            ]
        return [outs[m] if isinstance(m, int) else m(outs, args) for m in self._makers]


def plan(module: GraphModule) -> Recipes:
    """Reads what a module returns. Its nodes must be torch's own: nothing is lowered yet."""
    graph = module.graph
    _refuse_mistold(graph)
    roots, sources = Roots(graph), sizes_of_arguments(graph)
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    found = Recipes([], [], [])

    def result(root: Node) -> int:
        if root not in found.roots:
            number = len(found.roots)
            found.roots.append(root)
            found.results.append(Result(number, root.meta.get("val"), sources))
        return found.roots.index(root)

    returned: Any = next(n for n in graph.nodes if n.op == "output").args[0]
    sharing = Counter(roots[node] for node in returned if isinstance(node, Node))
    for node in returned:
        if not isinstance(node, Node):
            found.makers.append(_constant(node))
            continue
        value = node.meta.get("val")
        if isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
            found.makers.append(_size(value, sources))
            continue
        if value is not None and not isinstance(value, torch.Tensor):
            raise Unconverted(f"a {type(value).__name__} is returned")
        root = roots[node]
        view = _views(node, root, sources)
        if root.op == "placeholder":
            found.makers.append(_of_argument(placeholders.index(root), view))
        elif root.op == "get_attr":
            found.makers.append(_of_attribute(attribute(module, str(root.target)), view))
        elif node is root or (sharing[root] == 1 and _is_dense(node, sources)):
            found.makers.append(result(node))  # nobody sees whose memory it lies in
        else:
            found.makers.append(_of_result(result(root), view))
    return found


def _refuse_mistold(graph: torch.fx.Graph) -> None:
    """A program's results have torch's strides, which fakes tell."""
    for node in graph.nodes:
        if node.target not in MISTOLD:
            continue
        given = [n.meta.get("val") for n in node.all_input_nodes]
        if not all(v.is_contiguous() for v in given if isinstance(v, torch.Tensor)):
            raise Unconverted(
                f"the strides of {node.target} are not what torch's fake tensors tell"
            )


def _is_dense(node: Node, sources: Mapping[Any, str]) -> bool:
    return Result(0, node.meta["val"], sources).order() is not None


def _constant(value: Any) -> Maker:
    return lambda outs, args: value


def _size(value: Any, sources: Mapping[Any, str]) -> Maker:
    size = evaluator(value, sources)
    return lambda outs, args: size(args)


def _of_argument(at: int, view: Callable[[Any, Any], Any]) -> Maker:
    return lambda outs, args: view(args[at], args)


def _of_attribute(tensor: Any, view: Callable[[Any, Any], Any]) -> Maker:
    return lambda outs, args: view(tensor, args)


def _of_result(number: int, view: Callable[[Any, Any], Any]) -> Maker:
    return lambda outs, args: view(outs[number], args)


def sizes_of_arguments(graph: torch.fx.Graph) -> dict[Any, str]:
    """By symbol: where the arguments of a call say what it is, as code over `args`.

    A symbol may occur in strides or offsets alone, so these are read too, after the sizes.
    """
    sources: dict[Any, str] = {}
    for i, node in enumerate(n for n in graph.nodes if n.op == "placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            sources.setdefault(expression(value), f"args[{i}]")
        elif isinstance(value, torch.Tensor):
            for d, n in enumerate(value.shape):
                sources.setdefault(expression(n), f"args[{i}].shape[{d}]")
            for d, n in enumerate(value.stride()):
                sources.setdefault(expression(n), f"args[{i}].stride({d})")
            sources.setdefault(expression(value.storage_offset()), f"args[{i}].storage_offset()")
    return {k: v for k, v in sources.items() if not isinstance(k, int) and k.is_Symbol}


@dataclass
class _Number:
    """An argument of a view that a call's sizes tell."""

    size: Callable[[Any], Any]


def _views(node: Node, root: Node, sources: Mapping[Any, str]) -> Callable[[Any, Any], Any]:
    """The views from root to node, as a function of a torch tensor and a call's arguments."""
    steps = chain(node, root, lambda n: _Number(evaluator(n.meta["val"], sources)))
    if not steps:
        return lambda tensor, args: tensor

    def run(tensor: Any, args: Any) -> Any:
        for step in steps:
            tensor = step(tensor, lambda a: a.size(args) if isinstance(a, _Number) else a)
        return tensor

    return run
