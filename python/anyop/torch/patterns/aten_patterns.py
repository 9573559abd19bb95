# SPDX-License-Identifier: Apache-2.0
"""Several operators of ATen that are one of ours. Each is tried (proof.py) before it is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from anyop.torch._nodes.converters import is_known
from anyop.torch._nodes.fold import fold_constants, folded
from anyop.torch._nodes.fx import evaluated, only_user, put
from anyop.torch._nodes.memory import Roots, Writes, is_impure, is_random, nodes_in, viewed_by
from anyop.torch._proof import proof
from anyop.torch._proof.fragment import Fragment
from anyop.torch._proof.trials import Trial
from anyop.torch.patterns import aten_attention, aten_caches, aten_growing, aten_rotary

_aten = torch.ops.aten
_RMS_NORM = torch.ops.anyop.rms_norm.default
_LAYER_NORM = torch.ops.anyop.layer_norm.default
_LINEAR = torch.ops.anyop.linear.default
_PRODUCTS = (_aten.mm.default, _aten.addmm.default, _aten.linear.default)
_VIEWS = (_aten.view.default, _aten._unsafe_view.default)
_CASTS = (_aten._to_copy.default, torch.ops.prims.convert_element_type.default)


def fuse(module: GraphModule) -> None:
    """Replaces patterns whose intermediate values nobody else reads, and constants."""
    graph = module.graph
    aten_attention.merge_masks(graph)
    fold_constants(module)  # patterns ask for numbers, which programs compute at times
    for node in list(graph.nodes):
        _identity(graph, node)
        _functional(graph, node)
    writes = Writes(graph)
    for node in list(graph.nodes):
        if node.target is _aten.rsqrt.default:
            _rms_norm(graph, node, writes)
        elif node.target is _aten.tanh.default:
            _gelu(graph, node, writes)
        elif node.target is _aten.relu.default:
            _linear_relu(graph, node, writes)
    aten_rotary.fuse(graph)
    aten_attention.fuse(module)
    aten_growing.fuse(graph)
    aten_caches.fuse(graph)
    graph.eliminate_dead_code(is_impure_node=is_impure)


def _identity(graph: Graph, node: Node) -> None:
    """x * 1.0 is x, where x and the product are read only, and at most one of them is returned."""
    if node.target not in (_aten.mul.Tensor, _aten.mul.Scalar) or len(node.args) != 2:
        return
    x, number = node.args
    if not isinstance(x, Node) or _number(number) != 1:
        return
    if x.op != "call_function" or viewed_by(x) is not None:
        return
    roots, writes = Roots(graph), Writes(graph)
    returned = {roots[n] for n in nodes_in(graph.output_node().args)}
    if writes.at_all(x) or writes.at_all(node) or {x, node} <= returned:
        return
    if proof.holds(node, [x], lambda trial: trial.tensors[0], "x * 1", writes, results_only=True):
        node.replace_all_uses_with(x)


def _functional(graph: Graph, node: Node) -> None:
    """A write to what was made only for it is a new value."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return
    name = target._schema.name.partition("::")[2]
    source = node.args[0] if node.args else None
    if not name.endswith("_") or is_known(node) or not isinstance(source, Node):
        return
    is_own = list(source.users) == [node] and source.op == "call_function"
    if not is_own or viewed_by(source) is not None or is_random(node):
        return
    functional = _functional_of(target, name[:-1])
    if functional is None:
        return
    if torch.Tag.inplace_view in target.tags:  # where it was traced, it changed the type of source
        source.meta["val"] = evaluated(source)
    inputs = node.all_input_nodes

    def replacement(trial: Trial) -> Any:
        return Fragment(node, inputs).run(trial, {node: functional})

    if not proof.refusal(node, inputs, replacement, str(functional), results_only=True):
        node.target = functional


def _functional_of(target: Any, name: str) -> Any:
    """The overload of another operator that takes the same arguments; None where there is none."""

    def arguments(op: Any) -> list[tuple[str, str, bool]]:
        return [(a.name, str(a.type), a.kwarg_only) for a in op._schema.arguments]

    packet = getattr(_aten, name, None)
    overloads = [getattr(packet, o) for o in packet.overloads()] if packet is not None else []
    return next((o for o in overloads if arguments(o) == arguments(target)), None)


def _argument(node: Any, target: Any, i: int = 0) -> Any:
    """Argument i of a call of target that has one user; None for another node."""
    is_call = isinstance(node, Node) and node.target is target and len(node.users) == 1
    return node.args[i] if is_call else None


def _number(value: Any) -> float | None:
    """A number, or what a tensor of one number was when the graph was made."""
    if isinstance(value, Node):
        known = folded(value.graph.owning_module, value)
        return float(known) if known is not None and known.numel() == 1 else None
    return float(value) if isinstance(value, (int, float)) else None


def _source(node: Any) -> Any:
    """The value that a node casts; other nodes as they are."""
    return node.args[0] if isinstance(node, Node) and node.target in _CASTS else node


def _rms_norm(graph: Graph, rsqrt: Node, writes: Writes) -> None:
    """x * rsqrt(mean(x^2) + eps) [* weight], with casts to f32 before and back after; of x less
    its mean too."""
    add: Any = rsqrt.args[0]
    is_add = isinstance(add, Node) and add.target in (_aten.add.Scalar, _aten.add.Tensor)
    eps = _number(add.args[1]) if is_add else None
    if eps is None or len(add.users) != 1:
        return
    power = _argument(add.args[0], _aten.mean.dim)
    scaled = only_user(rsqrt)
    if _argument(power, _aten.pow.Tensor_Scalar) is None or scaled is None:
        return
    if power.args[0].meta["val"].dtype is torch.float64:
        return  # ours is so near to the exact norm that no trial tells it from one in f64
    # The longest end comes first: a shorter one leaves the weight and casts to others.
    for last, weight, offset in reversed(list(_ends(scaled))):
        for x, norm in _normed(power.args[0]):
            given = [x] if weight is None else [x, weight]
            args = (eps, offset) if norm is _RMS_NORM else (None, eps)

            def replacement(trial: Trial, norm: Any = norm, args: Any = args) -> Any:
                x, weight = [*trial.tensors, None][:2]
                return norm(x, weight, *args)

            if proof.holds(last, given, replacement, f"{norm} {args}", writes):
                put(graph, last, norm, (x, weight, *args), writes)
                return


def _normed(wide: Node) -> list[tuple[Node, Any]]:
    """Tensors that the norm may be of, and which norm, for the tensor that is squared: that tensor,
    the one that was cast to it, or for a layer norm the one that a mean was taken from."""
    found = [(x, _RMS_NORM) for x in dict.fromkeys((_source(wide), wide))]
    whole: Any = wide.args[0] if wide.target is _aten.sub.Tensor else None
    if isinstance(whole, Node):
        found += [(x, _LAYER_NORM) for x in dict.fromkeys((_source(whole), whole))]
    return found


def _ends(scaled: Node) -> Iterator[tuple[Node, Any, float]]:
    """Where a norm may end, what it is multiplied by until there, and what is added to that."""
    node, weight, offset = scaled, None, 0.0
    while True:
        yield node, weight, offset
        user = only_user(node)
        if user is None:
            return
        if user.target is _aten.mul.Tensor and weight is None:
            gain = user.args[0] if user.args[1] is node else user.args[1]
            weight, offset = _offset(gain)
            if not isinstance(weight, Node) or weight is node:
                return
        elif user.target not in _CASTS:
            return
        node = user


def _offset(gain: Any) -> tuple[Any, float]:
    """(weight, offset) of weight.float() + offset, which the norm adds itself."""
    if isinstance(gain, Node) and gain.target is _aten.add.Tensor and not gain.kwargs:
        for weight, added in (gain.args, gain.args[::-1]):
            number = _number(added)
            if number is not None and isinstance(weight, Node):
                return _source(weight), number
    return _source(gain), 0.0


def _gelu(graph: Graph, tanh: Node, writes: Writes) -> None:
    """0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))"""
    add = only_user(tanh)
    product = only_user(add) if add is not None else None
    scaled: Any = tanh.args[0]
    inner = scaled.args[0] if scaled.target is _aten.mul.Tensor else None
    if not isinstance(inner, Node) or inner.target is not _aten.add.Tensor:
        return
    if product is None or product.target is not _aten.mul.Tensor:
        return

    def replacement(trial: Trial) -> Any:
        return _aten.gelu.default(trial.tensors[0], approximate="tanh")

    for x in inner.all_input_nodes:
        if proof.holds(product, [x], replacement, "gelu", writes):
            put(graph, product, _aten.gelu.default, (x,), writes, approximate="tanh")
            return


def _linear_relu(graph: Graph, relu: Node, writes: Writes) -> None:
    """relu of x times a transposed weight, perhaps with a bias."""
    view: Any = relu.args[0]
    product = view
    while product.target in _VIEWS and len(product.users) == 1:
        product = product.args[0]
    if product.target not in _PRODUCTS or product.kwargs or len(product.users) != 1:
        return
    args: Any = product.args
    bias, x, weight = args if product.target is _aten.addmm.default else (None, *args[:2])
    if product.target is _aten.linear.default:
        bias = args[2] if len(args) > 2 else None
    elif weight.target in (_aten.t.default, _aten.permute.default, _aten.transpose.int):
        weight = weight.args[0]  # of two dimensions, which a product would not take as they were
    else:
        return
    last = _before_views(graph, relu, view, product, writes)

    def replacement(trial: Trial) -> Any:
        x, weight, bias = [*trial.tensors, None][:3]
        return _LINEAR(x, weight, bias, "relu")

    given = [x, weight] if bias is None else [x, weight, bias]
    kinds = ("normal", "zeros", "small", "large")  # huge sums overflow, or not, by their order
    if proof.holds(last, given, replacement, "linear with relu", writes, kinds=kinds):
        put(graph, last, _LINEAR, (x, weight, bias, "relu"), writes)


def _before_views(graph: Graph, relu: Node, view: Node, product: Node, writes: Writes) -> Node:
    """The relu of a product instead of that of views of it."""
    if view is product:
        return relu
    relu.replace_all_uses_with(view)
    with graph.inserting_after(product):
        made = graph.call_function(_aten.relu.default, (product,))
    made.meta = dict(product.meta)
    product.replace_all_uses_with(made, lambda user: user is not made)
    writes.replace(product, made)
    graph.erase_node(relu)
    return made
