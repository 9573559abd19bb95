# SPDX-License-Identifier: Apache-2.0
"""Operators of ATen and the operators of anyop that compute the same.

What is not the same stays with torch: argmax and topk (the order of NaN), masks of attention
that say more than `causal`, casts between floats and whole numbers, broadcasting that repeats rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

import anyop
from anyop._graph.value import Value
from anyop.torch._dispatch.operators import DTYPES, TORCH_DTYPES
from anyop.torch._nodes.converters import internal
from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.memory import is_same_view
from anyop.torch._nodes.sizes import Unconverted, is_same

_aten = torch.ops.aten

# One tensor in, one out, nothing else. A row whose operator is not there is skipped.
REGULAR = {"sigmoid": "sigmoid"}

# Tensors of one type, or a row [d] for the second.
BINARY = {"add": "add", "mul": "mul"}

_FLOATS = ("f16", "bf16", "f32", "f64")
_EXACT = {  # casts between other types in which torch and we cannot differ
    ("bool", "f32"), ("bool", "f64"), ("bool", "i64"), ("bool", "i32"), ("i32", "i64"),
    ("u8", "i64"), ("u8", "i32"), ("i32", "f64"), ("i32", "f32"), ("i64", "f32"), ("i64", "f64"),
}  # fmt: skip


def operator(name: str) -> Any:
    """An operator of anyop; Unconverted where there is none of this name."""
    found = getattr(anyop, name, None)
    if found is None:
        raise Unconverted(f"anyop has no operator {name}")
    return found


def _regular(name: str) -> Callable[..., Any]:
    return lambda node, building, x: operator(name)(x)


for _aten_name, _name in REGULAR.items():
    internal(getattr(_aten, _aten_name).default)(_regular(_name))


def _dims(shape: Any) -> list[str]:
    """Sizes other than 1, as text."""
    return [str(n) for n in shape if str(n) != "1"]


def _binary(
    name: str, node: Node, building: Any, x: Any, y: Any, knows_numbers: bool = True
) -> Any:
    """knows_numbers: x and y are the node's arguments, of which a constant is a number."""
    shape = [building.sizes(n) for n in node.meta["val"].shape]
    if knows_numbers:
        x, y = (_number_of(building, n, v) for n, v in zip(node.args, (x, y), strict=False))
    if not isinstance(x, Value):  # both are computed together
        x, y = y, x
    if not isinstance(y, Value):
        y = filled(y, x, building)
    for a, b in ((x, y), (y, x)):
        if _dims(a.shape) != _dims(shape):
            continue
        if _dims(b.shape) == _dims(shape):
            full = shape or [1]
            return operator(name)(a.reshape(full), b.reshape(full)).reshape(shape)
        is_row = b.shape and not _dims(b.shape[:-1])
        if is_row and [str(n) for n in b.shape[-1:]] == [str(n) for n in shape[-1:]]:
            return operator(name)(a.reshape(shape), b.reshape([b.shape[-1]]))
        is_whole = building.dtype(a)[0] == "i"
        # These are rows of one element each. Whole numbers here are positions, which are few.
        if is_whole and not _dims(b.shape):
            return operator(name)(a.reshape([*shape, 1]), b.reshape([1])).reshape(shape)
    raise Unconverted("broadcasting that repeats rows")


def _number_of(building: Any, node: Any, value: Any) -> Any:
    """A constant without dimensions as a number, which has a row of its own; others as they are."""
    known = folded(building.source.module, node)
    return known.item() if known is not None and not known.dim() else value


def filled(number: Any, x: Value, building: Any) -> Value:
    """A row of one number.

    For tensors of 16 bits torch computes with the number as it was written, while a row holds it
    rounded to their type; -1, 1 and 2 are exact in all types.
    """
    _, _, dtype, shape = building.tracer.describe(x._id)
    d = shape[-1] if shape else 1
    is_exact = dtype == "f32" or number in (-1, 1, 2)
    exact = (dtype in _FLOATS and is_exact) or (dtype[0] == "i" and isinstance(number, int))
    if not exact or isinstance(number, bool) or not isinstance(d, int):
        raise Unconverted(f"a number with {dtype}")
    to = TORCH_DTYPES[dtype]
    if dtype[0] == "i" and not torch.iinfo(to).min <= number <= torch.iinfo(to).max:
        raise Unconverted(f"{number} with {dtype}")
    made: Value = building.row([number] * d, to)
    return made


def _add(name: str) -> Callable[..., Any]:
    def convert(node: Node, building: Any, x: Any, y: Any, alpha: Any = 1) -> Any:
        if alpha != 1 or not isinstance(x, Value):
            return NotImplemented
        return _binary(name, node, building, x, y)

    return convert


@internal(_aten.neg.default)
def neg(node: Node, building: Any, x: Value) -> Any:
    flat = x.reshape(x.shape or [1])
    return operator("mul")(flat, filled(-1, flat, building)).reshape(x.shape)


@internal(_aten.sub.Tensor)
def sub(node: Node, building: Any, x: Any, y: Any, alpha: Any = 1) -> Any:
    """x + (-1)*y, of the same bits."""
    if alpha != 1 or not isinstance(x, Value) or not isinstance(y, Value):
        return NotImplemented
    return _binary("add", node, building, x, neg(node, building, y), knows_numbers=False)


for _aten_name, _name in BINARY.items():
    for _overload in ("Tensor", "Scalar"):
        internal(getattr(getattr(_aten, _aten_name), _overload))(_add(_name))


@internal(_aten.silu.default)
def silu(node: Node, building: Any, x: Value) -> Any:
    flat = x.reshape(x.shape or [1])
    return operator("mul")(flat, operator("sigmoid")(flat)).reshape(x.shape)


@internal(_aten._softmax.default)
def softmax(node: Node, building: Any, x: Value, dim: int, half_to_float: bool) -> Any:
    if half_to_float or not x.ndim or dim % x.ndim != x.ndim - 1:
        return NotImplemented
    return operator("softmax")(x)


@internal(_aten.embedding.default)
def embedding(
    node: Node, building: Any, weight: Value, ids: Value, padding_idx: int = -1,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """A negative id is an error in torch, but no error of ours: wrap_index looks at all first."""
    rows = operator("wrap_index")(ids, weight.shape[0], False)
    return operator("embedding")(rows, weight)


@internal(_aten.rms_norm.default)
def rms_norm(
    node: Node, building: Any, x: Value, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Any:
    if len(normalized_shape) != 1 or eps is None:
        return NotImplemented
    return operator("rms_norm")(x, weight, eps)


@internal(_aten.native_layer_norm.default)
def layer_norm(
    node: Node, building: Any, x: Value, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    if len(normalized_shape) != 1 or any(u.args[1] != 0 and u.users for u in node.users):
        return NotImplemented  # mean and deviation are read: training
    return operator("layer_norm")(x, weight, bias, eps), None, None


@internal(_aten.gelu.default)
def gelu(node: Node, building: Any, x: Value, *, approximate: str = "none") -> Any:
    return operator("gelu")(x, approximate)


@internal(_aten.gelu_backward.default)
def gelu_backward(
    node: Node, building: Any, dy: Value, x: Value, *, approximate: str = "none"
) -> Any:
    return operator("gelu_backward")(dy, x, approximate)


@internal(_aten.linear.default)
def linear(node: Node, building: Any, x: Value, weight: Value, bias: Any = None) -> Any:
    return operator("linear")(x, weight, bias) if weight.ndim == 2 else NotImplemented


def _is_transposed(node: Any) -> bool:
    """Whether the last two dimensions lie in memory the other way round."""
    value = node.meta["val"]
    return is_same(value.stride(-2), 1) and not is_same(value.stride(-1), 1)


def _product(nodes: Any, x: Value, y: Value) -> Any:
    """x [b, m, k] times y [b, k, n]; nodes: theirs."""
    x_node, y_node = nodes
    multiply = operator("batch_matmul")
    if _is_transposed(x_node) and not _is_transposed(y_node):
        return multiply(x.swapaxes(1, 2), y, "tn")
    if _is_transposed(y_node):
        return multiply(x, y.swapaxes(1, 2), "nt")
    return multiply(x, y)


@internal(_aten.mm.default)
def mm(node: Node, building: Any, x: Value, y: Value) -> Any:
    if _is_transposed(node.args[1]):
        return operator("linear")(x, y.swapaxes(0, 1))
    made = _product(node.args, x.reshape([1, *x.shape]), y.reshape([1, *y.shape]))
    return made.reshape(made.shape[1:])


@internal(_aten.addmm.default)
def addmm(
    node: Node, building: Any, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1
) -> Any:
    if beta != 1 or alpha != 1 or bias.ndim != 1:
        return NotImplemented
    if _is_transposed(node.args[2]):
        return operator("linear")(x, y.swapaxes(0, 1), bias)
    product = _product(node.args[1:3], x.reshape([1, *x.shape]), y.reshape([1, *y.shape]))
    return operator("add")(product.reshape(product.shape[1:]), bias)


@internal(_aten.bmm.default)
def bmm(node: Node, building: Any, x: Value, y: Value) -> Any:
    return _product(node.args, x, y)


@internal(_aten.zeros.default)
def zeros(node: Node, building: Any, *_: Any, **__: Any) -> Any:
    """Sums of nothing: a product of matrices [rows, 0] and [0, columns]. Zeros of fixed sizes stay
    with torch, which computes them once."""
    value = node.meta["val"]
    shape = [building.sizes(n) for n in value.shape]
    if DTYPES.get(value.dtype) not in _FLOATS[:3] or all(isinstance(n, int) for n in shape):
        return NotImplemented
    *outer, d = shape
    rows: Any = 1
    for n in outer:
        rows = rows * n
    empty = building.row([], value.dtype)
    made = operator("batch_matmul")(empty.reshape([1, rows, 0]), empty.reshape([1, 0, d]))
    return made.reshape(shape)


def _cast(building: Any, x: Value, to: torch.dtype, out: Value | None = None) -> Any:
    source, target = building.dtype(x), DTYPES.get(to, "")
    both_float = source in _FLOATS and target in _FLOATS
    if source != target and not both_float and (source, target) not in _EXACT:
        raise Unconverted(f"a cast from {source} to {target or to}")
    return operator("cast")(x, target, False, out=out)


def contiguous(building: Any, x: Value) -> Value:
    """A copy whose elements lie in order."""
    made: Value = operator("cast")(x, building.dtype(x), False)
    return made


@internal(_aten._to_copy.default)
def to_copy(
    node: Node, building: Any, x: Value, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None, non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    return _cast(building, x, node.meta["val"].dtype)


@internal(torch.ops.prims.convert_element_type.default)
def convert_element_type(node: Node, building: Any, x: Value, dtype: torch.dtype) -> Any:
    return _cast(building, x, dtype)


@internal(_aten.clone.default)
def clone(node: Node, building: Any, x: Value, memory_format: Any = None) -> Any:
    return _copied(building, node, node.args[0], x)


def _copied(building: Any, node: Node, source: Any, x: Value) -> Any:
    """Nothing is copied where neither is written and the elements lie in order already."""
    is_read_only = not building.is_written(source, node)
    if is_read_only and source.meta["val"].is_contiguous():
        return x
    return _cast(building, x, node.meta["val"].dtype)


@internal(_aten.lift_fresh_copy.default)
def lift_fresh_copy(node: Node, building: Any, x: Value) -> Any:
    """torch traces torch.tensor(...) in a program as a call of this operator."""
    return clone(node, building, x)


@internal(_aten.cat.default)
def cat(node: Node, building: Any, tensors: Sequence[Value], dim: int = 0) -> Any:
    """Joins one tensor and empty ones, as a cache that grows begins; torch copies in all others."""
    nodes: Any = node.args[0]
    sizes = [n.meta["val"].shape for n in nodes]
    full = [i for i, shape in enumerate(sizes) if not any(is_same(s, 0) for s in shape)]
    if len(full) != 1 or nodes[full[0]].meta["val"].dtype != node.meta["val"].dtype:
        return NotImplemented
    return _copied(building, node, nodes[full[0]], tensors[full[0]])


@internal(_aten.copy.default)
def copy(node: Node, building: Any, x: Value, y: Value, non_blocking: bool = False) -> Any:
    """The elements of y as a new tensor of x's type and shape."""
    source: Any = node.args[1]
    if _dims(x.shape) != _dims(y.shape):
        return NotImplemented
    is_read_only = not building.is_written(source, node)
    is_alike = source.meta["val"].dtype == node.meta["val"].dtype
    if is_read_only and is_alike and source.meta["val"].is_contiguous():
        return y.reshape(x.shape)
    return _cast(building, y, node.meta["val"].dtype).reshape(x.shape)


@internal(_aten.copy_.default)
def copy_(node: Node, building: Any, x: Value, y: Value, non_blocking: bool = False) -> Any:
    if _dims(x.shape) != _dims(y.shape):
        return NotImplemented
    target: Any = node.args[0]
    if is_same_view(target, node.args[1]):  # x[1:] += y ends with x[1:] = x[1:]
        return x
    return _cast(building, y.reshape(x.shape), target.meta["val"].dtype, out=x)


@internal(_aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(
    node: Node, building: Any, q: Value, k: Value, v: Value, dropout_p: float = 0.0,
    is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]; torch's causal mask begins at the first key."""
    if dropout_p or attn_mask is not None or (is_causal and str(q.shape[2]) != str(k.shape[2])):
        return NotImplemented
    if any(user.args[1] == 1 and user.users for user in node.users):
        return NotImplemented  # the sums of exponentials are read, which ours has in another layout
    batch = q.shape[0]
    if not isinstance(batch, int):
        return NotImplemented

    def rows(x: Value) -> Value:  # [b*t, h, d]
        x = x.swapaxes(1, 2)
        shape = [x.shape[0] * x.shape[1], *x.shape[2:]]
        try:
            return x.reshape(shape)
        except anyop.InvalidArgument:  # no view: its heads do not lie beside each other
            return contiguous(building, x).reshape(shape)

    starts = [building.starts(batch, x.shape[2]) for x in (q, k)]
    y, _ = operator("attention")(rows(q), rows(k), rows(v), *starts, scale, is_causal)
    return y.reshape([batch, q.shape[2], q.shape[1], v.shape[3]]).swapaxes(1, 2), None
