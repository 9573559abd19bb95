# SPDX-License-Identifier: Apache-2.0
"""Convolutions of ATen over one, two and three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from anyop._graph.value import Value
from anyop.torch._nodes.converters import internal
from anyop.torch._nodes.sizes import Unconverted

from .aten import operator

_aten = torch.ops.aten


def _planes(*tensors: Value) -> list[Value]:
    """One axis becomes the second of two, the first of which has size 1."""
    return [t.reshape([*t.shape[:2], 1, t.shape[2]]) for t in tensors]


def _line(t: Value) -> Value:
    return t.reshape([t.shape[0], t.shape[1], t.shape[3]])


def _lists(
    axes: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[list[int]]:
    """A number for each axis, of which there are two at least."""
    lists = [list(n) * (axes if len(n) == 1 else 1) for n in (stride, padding, dilation)]
    for one, unit in zip(lists, (1, 0, 1), strict=True):
        if axes == 1:
            one.insert(0, unit)
    return lists


@internal(_aten.convolution.default)
def convolution(
    node: Node, building: Any, x: Value, weight: Value, bias: Any, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    axes = x.ndim - 2
    if transposed or axes not in (1, 2, 3):
        return NotImplemented
    if not node.meta["val"].is_contiguous():
        raise Unconverted("a result with its channels last")
    lists = _lists(axes, stride, padding, dilation)
    if axes > 1:
        return operator(f"conv{axes}d")(x, weight, bias, *lists, groups)
    return _line(operator("conv2d")(*_planes(x, weight), bias, *lists, groups))


@internal(_aten.convolution_backward.default)
def convolution_backward(
    node: Node, building: Any, dy: Value, x: Value, weight: Value, bias_sizes: Any,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of x, weight and bias; None for those that output_mask does not ask for."""
    axes = x.ndim - 2
    if transposed or axes not in (1, 2, 3) or not any(output_mask):
        return NotImplemented
    if any(t is not None and not t.is_contiguous() for t in node.meta["val"]):
        raise Unconverted("a result with its channels last")
    given = [dy, x, weight] if axes > 1 else _planes(dy, x, weight)
    made = operator(f"conv{max(axes, 2)}d_backward")(
        *given, *_lists(axes, stride, padding, dilation), groups, "given",
        out=tuple(None if is_wanted else False for is_wanted in output_mask),
    )  # fmt: skip
    if axes > 1:
        return tuple(made)
    dx, dweight, dbias = made
    return *(None if t is None else _line(t) for t in (dx, dweight)), dbias
