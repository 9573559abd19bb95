# SPDX-License-Identifier: Apache-2.0
"""Parts of decoder models that are one operator of anyop, as functions of torch tensors.

`aten_rotary` and `aten_attention` find them in a program and put calls of these functions there.
One body serves tensors, where it is tried and where it runs as a host node, and values of a graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

import anyop
from anyop._graph.value import Value
from anyop.torch._nodes.converters import internal
from anyop.torch.patterns.aten import contiguous, filled, operator


def rotary_table(cos: Any, sin: Any, batch: int, style: str) -> Any:
    """[batch*t, d]: a cosine for each pair, then the sines, of cos and sin [1 or batch, t, d], in
    which both elements of a pair have the same."""
    d = cos.shape[-1]
    first = slice(None, None, 2) if style == "gptj" else slice(d // 2)
    rows = torch.cat([cos[..., first], sin[..., first]], -1)
    return rows.expand(batch, -1, -1).reshape(-1, d)


def rotated(x: Any, table: Any, head: int, style: str) -> Any:
    """x [b, h, t, d] (head is 1) or [b, t, h, d] (2): the first elements of each head rotated."""
    return _rotated(None, x, table, head, style)


@internal(rotated)
def convert_rotated(node: Node, building: Any, *args: Any) -> Any:
    return _rotated(building, *args)


def _rotated(building: Any, x: Any, table: Any, head: int, style: str) -> Any:
    rows = x.swapaxes(1, 2) if head == 1 else x
    y = operator("rope")(flat(building, rows), None, table, style=style).reshape(rows.shape)
    return y.swapaxes(1, 2) if head == 1 else y


def flat(building: Any, x: Any) -> Any:
    """x [b, t, h, d] as [b*t, h, d]; a copy where its tokens do not lie beside each other."""
    shape = [x.shape[0] * x.shape[1], *x.shape[2:]]
    if not isinstance(x, Value):
        return x.reshape(shape)
    try:
        return x.reshape(shape)
    except anyop.InvalidArgument:
        return contiguous(building, x).reshape(shape)


def starts(batch: int, length: int) -> Any:
    """[batch + 1]: where each sequence of so many tokens begins, and where the last ends."""
    return torch.arange(batch + 1) * length


def attend(
    q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any, scale: float | None, is_causal: bool,
    window: int,
) -> Any:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]. Where it is causal, query i sees the keys
    j <= i + t - s and, if window >= 0, j >= i + t - s - window."""
    return _attend(None, q, k, v, q_starts, k_starts, scale, is_causal, window)


@internal(attend)
def convert_attend(node: Node, building: Any, *args: Any) -> Any:
    return _attend(building, *args)


def _attend(
    building: Any, q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any, scale: float | None,
    is_causal: bool, window: int,
) -> Any:  # fmt: skip
    given = [flat(building, x.swapaxes(1, 2)) for x in (q, k, v)]
    y, _ = operator("attention")(*given, q_starts, k_starts, scale, is_causal, window)
    return y.reshape([q.shape[0], q.shape[2], q.shape[1], v.shape[3]]).swapaxes(1, 2)


def cache_lengths(
    position: Any, batch: int, queries: int, keys: int, shift: int, window: int
) -> Any:
    """[batch]: how many keys there would be if the last query saw the last of them.

    position: query i sees keys j <= i + position + shift. More than all keys are seen as no more
    than all are, and than none where a window is behind them: `blocks` has columns for so many.
    """
    most = _most_keys(queries, keys, window)
    lengths = (position.reshape(1).to(torch.int64) + (shift + queries)).clamp(0, most)
    return lengths.expand(batch).contiguous()


def _most_keys(queries: int, keys: int, window: int) -> int:
    return keys + queries + max(window + 1, 0)


def cache_blocks(batch: int, queries: int, keys: int, window: int) -> Any:
    """[batch, columns]: the keys of a sequence are a block; those that do not exist are hidden."""
    columns = -(-_most_keys(queries, keys, window) // max(keys, 1))
    blocks = torch.full((batch, columns), -1, dtype=torch.int32)
    blocks[:, 0] = torch.arange(batch)
    return blocks


def attend_cache(
    q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any, scale: float | None,
    window: int,
) -> Any:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]; of how many keys depends on the call."""
    return _attend_cache(None, q, k, v, blocks, lengths, q_starts, scale, window)


@internal(attend_cache)
def convert_attend_cache(node: Node, building: Any, *args: Any) -> Any:
    return _attend_cache(building, *args)


def _attend_cache(
    building: Any, q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any,
    scale: float | None, window: int,
) -> Any:  # fmt: skip
    rows, keys, values = (x.swapaxes(1, 2) for x in (q, k, v))
    y, _ = operator("paged_attention")(
        flat(building, rows), keys, values, blocks, lengths, q_starts, scale, True, window
    )
    return y.reshape([*rows.shape[:3], v.shape[3]]).swapaxes(1, 2)


def kept_blocks(kept: Any, batch: int, queries: int, keys: int) -> Any:
    """[batch*queries, keys]: each key is a block, and each query a sequence that may hide it.

    kept: a boolean mask that can be expanded to [batch, 1, queries, keys].
    """
    first = torch.arange(batch, dtype=torch.int32).view(-1, 1, 1, 1) * keys
    blocks = torch.where(kept, first + torch.arange(keys, dtype=torch.int32), -1)
    return blocks.to(torch.int32).expand(batch, 1, queries, keys).reshape(-1, keys)


def kept_lengths(batch: int, queries: int, keys: int) -> Any:
    """[batch*queries]"""
    return torch.full((batch * queries,), keys, dtype=torch.int64)


def last_query(kept: Any) -> Any:
    return kept[..., -1:, :]


def attend_kept(
    q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any, scale: float | None,
    is_causal: bool,
) -> Any:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]; of the keys that each query keeps. With q_starts,
    of those that its sequence keeps, and where it is causal of those before it."""
    return _attend_kept(None, q, k, v, blocks, lengths, q_starts, scale, is_causal)


@internal(attend_kept)
def convert_attend_kept(node: Node, building: Any, *args: Any) -> Any:
    return _attend_kept(building, *args)


def _attend_kept(
    building: Any, q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any,
    scale: float | None, is_causal: bool,
) -> Any:  # fmt: skip
    rows = q.swapaxes(1, 2)
    caches = [flat(building, x.swapaxes(1, 2)) for x in (k, v)]
    keys, values = (x.reshape([x.shape[0], 1, *x.shape[1:]]) for x in caches)
    y, _ = operator("paged_attention")(
        flat(building, rows), keys, values, blocks, lengths, q_starts, scale, is_causal
    )
    return y.reshape([*rows.shape[:3], v.shape[3]]).swapaxes(1, 2)


def added_mask(mask: Any, dtype: torch.dtype, batch: int, heads: int, queries: int) -> Any:
    """[batch*heads, queries, keys]: what a mask adds to each product; nothing to those of a query
    that sees no key, whose softmax would be NaN."""
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, float("-inf"))
    mask = mask.masked_fill((mask == float("-inf")).all(-1, keepdim=True), 0)
    return mask.expand(batch, heads, queries, -1).reshape(batch * heads, queries, -1)


def seen_rows(
    mask: Any, dtype: torch.dtype, batch: int, heads: int, queries: int, width: int
) -> Any:
    """[batch*heads, queries, width]: 0 for queries that see no key, else 1."""
    hidden = ~mask if mask.dtype == torch.bool else mask == float("-inf")
    seen = (~hidden.all(-1, keepdim=True)).to(dtype)
    return seen.expand(batch, heads, queries, width).reshape(batch * heads, queries, width)


def attend_added(q: Any, k: Any, v: Any, mask: Any, seen: Any, scale: float | None) -> Any:
    """q [b, h, s, d], k and v [b, h, t, d]; mask [b*h, s, t], seen [b*h, s, dv]."""
    return _attend_added(None, q, k, v, mask, seen, scale)


@internal(attend_added)
def convert_attend_added(node: Node, building: Any, *args: Any) -> Any:
    return _attend_added(building, *args)


def _attend_added(
    building: Any, q: Any, k: Any, v: Any, mask: Any, seen: Any, scale: float | None
) -> Any:
    multiply = operator("batch_matmul")
    rows, keys, values = (flat(building, x) for x in (q, k, v))
    factor = float(q.shape[3]) ** -0.5 if scale is None else scale
    if factor != 1:
        rows = operator("mul")(rows, _row(building, factor, rows))
    products = operator("add")(multiply(rows, keys, "nt"), mask)
    made = operator("mul")(multiply(operator("softmax")(products), values), seen)
    return made.reshape([*q.shape[:3], v.shape[3]])


def _row(building: Any, number: float, like: Any) -> Any:
    """[d] of one number."""
    if building is None:
        return torch.full(like.shape[-1:], number, dtype=like.dtype)
    return filled(number, like, building)
