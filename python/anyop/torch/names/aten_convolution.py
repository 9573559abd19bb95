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


@internal(_aten.convolution.default)
def convolution(
    node: Node, building: Any, x: Value, weight: Value, bias: Any, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """One axis is the second of two, the first of which has size 1."""
    axes = x.ndim - 2
    if transposed or axes not in (1, 2, 3):
        return NotImplemented
    if not node.meta["val"].is_contiguous():
        raise Unconverted("a result with its channels last")
    lists = [list(n) * (axes if len(n) == 1 else 1) for n in (stride, padding, dilation)]
    if axes > 1:
        return operator(f"conv{axes}d")(x, weight, bias, *lists, groups)
    for one, unit in zip(lists, (1, 0, 1), strict=True):
        one.insert(0, unit)
    planes, filters = (t.reshape([*t.shape[:2], 1, t.shape[2]]) for t in (x, weight))
    y = operator("conv2d")(planes, filters, bias, *lists, groups)
    return y.reshape([y.shape[0], y.shape[1], y.shape[3]])
