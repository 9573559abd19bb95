# SPDX-License-Identifier: Apache-2.0
"""Several operators of ATen that are one of anyop's."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from anyop.torch._converters import is_known
from anyop.torch._fx import only_user as _only_user
from anyop.torch._memory import Writes, viewed_by, written_by
from anyop.torch.names import aten_attention, aten_rotary

_aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = (_aten._to_copy.default, torch.ops.prims.convert_element_type.default)


def fuse(module: GraphModule) -> None:
    """Replaces patterns whose intermediate values nobody else reads."""
    graph = module.graph
    for node in list(graph.nodes):
        _identity(node)
        _functional(node)
    writes = Writes(graph)
    for node in list(graph.nodes):
        if node.target is _aten.rsqrt.default:
            _rms_norm(graph, node, writes)
        elif node.target is _aten.tanh.default:
            _gelu(graph, node, writes)
    aten_rotary.fuse(graph)
    aten_attention.fuse(module)
    graph.eliminate_dead_code(is_impure_node=_is_impure)


def _identity(node: Node) -> None:
    """x * 1.0 of a float tensor that nobody writes is x."""
    if node.target not in (_aten.mul.Tensor, _aten.mul.Scalar) or len(node.args) != 2:
        return
    x, number = node.args
    if not isinstance(x, Node) or not isinstance(number, (int, float)) or number != 1:
        return
    is_own = x.op == "call_function" and viewed_by(x) is None and not any(map(written_by, x.users))
    if is_own and x.meta["val"].dtype == node.meta["val"].dtype:
        node.replace_all_uses_with(x)


def _functional(node: Node) -> None:
    """A write to what was made only for it is a new value."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return
    name = target._schema.name.partition("::")[2]
    source = node.args[0] if node.args else None
    if not name.endswith("_") or is_known(node) or not isinstance(source, Node):
        return
    is_own = list(source.users) == [node] and source.op == "call_function"
    if not is_own or viewed_by(source) is not None:
        return
    functional = getattr(getattr(_aten, name[:-1], None), target._overloadname, None)
    if functional is not None and source.meta["val"].dtype == node.meta["val"].dtype:
        node.target = functional


def _is_impure(node: Node) -> bool:
    return bool(written_by(node)) or node.is_impure()


def _argument(node: Any, target: Any, i: int = 0) -> Any:
    """Argument i of a call of target that has one user; None for another node."""
    is_call = isinstance(node, Node) and node.target is target and len(node.users) == 1
    return node.args[i] if is_call else None


def _source(node: Any) -> Any:
    """What is cast to f32."""
    is_cast = isinstance(node, Node) and node.target in _CASTS
    return node.args[0] if is_cast else node


def _rms_norm(graph: Graph, rsqrt: Node, writes: Writes) -> None:
    """x * rsqrt(mean(x^2) + eps) [* weight], with casts to f32 before and back after."""
    add: Any = rsqrt.args[0]
    is_add = isinstance(add, Node) and add.target in (_aten.add.Scalar, _aten.add.Tensor)
    if not is_add or not isinstance(add.args[1], float) or len(add.users) != 1 or add.kwargs:
        return
    mean, eps = add.args[0], add.args[1]
    power = _argument(mean, _aten.mean.dim)
    if (
        power is None
        or not _is_over_last(mean)
        or _argument(power, _aten.pow.Tensor_Scalar) is None
    ):
        return
    wide, exponent = power.args
    scaled = _only_user(rsqrt)
    if exponent != 2 or wide.meta["val"].dtype != torch.float32 or scaled is None:
        return
    if scaled.target is not _aten.mul.Tensor or set(scaled.args) != {wide, rsqrt}:
        return
    x = _source(wide)
    if x.meta["val"].dtype not in _FLOATS:
        return
    found = _weighted_before_cast(scaled, x) or _cast_back(scaled, x.meta["val"].dtype)
    if found is None:
        return
    product, gain = found if isinstance(found, tuple) else _weighted(found, x)
    weight, offset = _offset(gain)
    if weight is not None and weight.meta["val"].dtype != x.meta["val"].dtype:
        return
    if writes.between(x, power if wide is x else wide, product):
        return
    with graph.inserting_before(product):
        norm = torch.ops.anyop.rms_norm.default
        made = graph.call_function(norm, (x, weight, eps, offset))
    made.meta = dict(product.meta)
    product.replace_all_uses_with(made)
    writes.replace(product, made)


def _is_over_last(mean: Node) -> bool:
    dims: Any = mean.args[1]
    source: Any = mean.args[0]
    keeps = len(mean.args) > 2 and mean.args[2] is True
    return keeps and [d % source.meta["val"].dim() for d in dims] == [source.meta["val"].dim() - 1]


def _cast_back(scaled: Node, dtype: torch.dtype) -> Node | None:
    """The node whose value is the normed x in its own dtype."""
    if dtype == torch.float32:
        return scaled
    user = _only_user(scaled)
    if user is not None and user.target in _CASTS and user.meta["val"].dtype == dtype:
        return user
    return None


def _weighted_before_cast(scaled: Node, x: Node) -> tuple[Node, Any] | None:
    """The same where x is cast back after it was multiplied by a weight of its own dtype."""
    user = _only_user(scaled)
    if x.meta["val"].dtype == torch.float32 or user is None or user.target is not _aten.mul.Tensor:
        return None
    weight = _source(user.args[0] if user.args[1] is scaled else user.args[1])
    gain = _offset(weight)[0]
    value = gain.meta["val"] if isinstance(gain, Node) else None
    if not isinstance(value, torch.Tensor) or value.dim() != 1:
        return None
    last = _cast_back(user, x.meta["val"].dtype)
    is_same = last is not None and value.dtype == x.meta["val"].dtype
    return (last, weight) if last is not None and is_same else None


def _offset(gain: Any) -> tuple[Any, float]:
    """(weight, offset) of weight.float() + offset, which the norm adds itself; else (gain, 0)."""
    if isinstance(gain, Node) and gain.target is _aten.add.Tensor and not gain.kwargs:
        weight, number = gain.args
        if isinstance(number, (int, float)) and isinstance(weight, Node):
            return _source(weight), float(number)
    return gain, 0.0


def _gelu(graph: Graph, tanh: Node, writes: Writes) -> None:
    """0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))"""
    inner = _times(tanh.args[0], math.sqrt(2 / math.pi))
    add = _only_user(tanh)
    product = _only_user(add) if add is not None and _plus(add, 1) is tanh else None
    if inner is None or inner.target is not _aten.add.Tensor or product is None:
        return
    for x, cubic in (inner.args, inner.args[::-1]):
        power = _times(cubic, 0.044715)
        is_power = isinstance(power, Node) and power.target is _aten.pow.Tensor_Scalar
        if not is_power or power.args[0] is not x or power.args[1] != 3:
            continue
        half = next((n for n in product.args if n is not add), None)
        is_written = writes.at_all(x)
        if product.target is _aten.mul.Tensor and _times(half, 0.5) is x and not is_written:
            with graph.inserting_before(product):
                made = graph.call_function(_aten.gelu.default, (x,), {"approximate": "tanh"})
            made.meta = dict(product.meta)
            product.replace_all_uses_with(made)
            writes.replace(product, made)
            return


def _times(node: Any, factor: float) -> Any:
    """What is multiplied by a number close to factor; None for another node."""
    is_product = isinstance(node, Node) and node.target is _aten.mul.Tensor
    if not is_product or not isinstance(node.args[1], (int, float)):
        return None
    return node.args[0] if math.isclose(node.args[1], factor, rel_tol=1e-5) else None


def _plus(node: Node, number: float) -> Any:
    is_sum = node.target is _aten.add.Tensor and not node.kwargs
    return node.args[0] if is_sum and node.args[1] == number else None


def _weighted(last: Node, x: Node) -> tuple[Node, Any]:
    """The node that multiplies by a weight [d], and the weight."""
    user = _only_user(last)
    if user is None or user.target is not _aten.mul.Tensor:
        return last, None
    weight: Any = user.args[0] if user.args[1] is last else user.args[1]
    value = weight.meta["val"] if isinstance(weight, Node) else None
    if not isinstance(value, torch.Tensor) or value.dim() != 1 or weight is last:
        return last, None
    if value.dtype != x.meta["val"].dtype:
        return last, None
    return user, weight
