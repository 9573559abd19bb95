# SPDX-License-Identifier: Apache-2.0
"""Parts of decoder models that are one operator of anyop, as functions of torch tensors.

`aten_rotary` and `aten_attention` find them in a program and put calls of these functions there.
Their converters are beside them; where one refuses, the function itself runs as a host node.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

import anyop
from anyop._graph.value import Value
from anyop.torch._converters import internal
from anyop.torch.names.aten import contiguous, operator


def rotary_table(cos: torch.Tensor, sin: torch.Tensor, batch: int) -> torch.Tensor:
    """[batch*t, d] of cos and sin [1 or batch, t, d], whose halves are equal: theirs in a row."""
    half = cos.shape[-1] // 2
    rows = torch.cat([cos[..., :half], sin[..., :half]], -1)
    return rows.expand(batch, -1, -1).reshape(-1, cos.shape[-1])


def rotated(x: torch.Tensor, table: torch.Tensor, head: int) -> torch.Tensor:
    """x [b, h, t, d] (head is 1) or [b, t, h, d] (2): the first elements of each head rotated."""
    half = table.shape[-1] // 2
    rows = table.view(x.shape[0], -1, 2 * half).unsqueeze(head)
    cos, sin = rows[..., :half], rows[..., half:]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1).to(x.dtype)


@internal(rotated)
def convert_rotated(node: Node, lowering: Any, x: Value, table: Value, head: int) -> Any:
    rows = x.swapaxes(1, 2) if head == 1 else x
    y = operator("rope")(flat(lowering, rows), None, table).reshape(rows.shape)
    return y.swapaxes(1, 2) if head == 1 else y


def flat(lowering: Any, x: Value) -> Value:
    """x [b, t, h, d] as [b*t, h, d]; a copy where its tokens do not lie beside each other."""
    shape = [x.shape[0] * x.shape[1], *x.shape[2:]]
    try:
        return x.reshape(shape)
    except anyop.InvalidArgument:
        return contiguous(lowering, x).reshape(shape)


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offset: Any, shift: int, window: int,
    scale: float | None,
) -> torch.Tensor:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]. Query i sees the keys j <= i + offset + shift and,
    if window >= 0, j >= i + offset + shift - window. offset: "last" is t - s; None: all keys."""
    s, t = q.shape[2], k.shape[2]
    mask = None
    if offset is not None:
        at = (t - s if isinstance(offset, str) else offset) + shift
        last, j = torch.arange(s)[:, None] + at, torch.arange(t)[None]
        mask = j <= last if window < 0 else (j <= last) & (j >= last - window)
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True)


@internal(attend)
def convert_attend(
    node: Node, lowering: Any, q: Value, k: Value, v: Value, offset: Any, shift: int, window: int,
    scale: float | None,
) -> Any:  # fmt: skip
    batch, s = q.shape[0], q.shape[2]
    if not isinstance(batch, int):
        return NotImplemented
    rows, keys, values = (x.swapaxes(1, 2) for x in (q, k, v))
    if isinstance(offset, Value):
        if not isinstance(s, int):
            return NotImplemented
        blocks = lowering.constant_row(range(batch), torch.int32).reshape([batch, 1])
        starts = lowering.constant_row(range(0, batch * s + 1, s or 1), torch.int64)
        lengths = lowering.constant_row([s + shift] * batch, torch.int64).reshape([batch, 1])
        lengths = operator("add")(lengths, offset.reshape([1])).reshape([batch])
        y, _ = operator("paged_attention")(
            flat(lowering, rows), keys, values, blocks, lengths, starts, scale, True, window
        )
    else:
        starts = lowering.starts(batch, s), lowering.starts(batch, keys.shape[1])
        given = [flat(lowering, x) for x in (rows, keys, values)]
        y, _ = operator("attention")(*given, *starts, scale, offset is not None, window)
    return y.reshape([batch, s, q.shape[1], v.shape[3]]).swapaxes(1, 2)
