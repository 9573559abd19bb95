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
from anyop.torch._converters import internal
from anyop.torch.names.aten import contiguous, operator


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
def convert_rotated(node: Node, lowering: Any, *args: Any) -> Any:
    return _rotated(lowering, *args)


def _rotated(lowering: Any, x: Any, table: Any, head: int, style: str) -> Any:
    rows = x.swapaxes(1, 2) if head == 1 else x
    y = operator("rope")(flat(lowering, rows), None, table, style=style).reshape(rows.shape)
    return y.swapaxes(1, 2) if head == 1 else y


def flat(lowering: Any, x: Any) -> Any:
    """x [b, t, h, d] as [b*t, h, d]; a copy where its tokens do not lie beside each other."""
    shape = [x.shape[0] * x.shape[1], *x.shape[2:]]
    if not isinstance(x, Value):
        return x.reshape(shape)
    try:
        return x.reshape(shape)
    except anyop.InvalidArgument:
        return contiguous(lowering, x).reshape(shape)


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
def convert_attend(node: Node, lowering: Any, *args: Any) -> Any:
    return _attend(lowering, *args)


def _attend(
    lowering: Any, q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any, scale: float | None,
    is_causal: bool, window: int,
) -> Any:  # fmt: skip
    given = [flat(lowering, x.swapaxes(1, 2)) for x in (q, k, v)]
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
def convert_attend_cache(node: Node, lowering: Any, *args: Any) -> Any:
    return _attend_cache(lowering, *args)


def _attend_cache(
    lowering: Any, q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any,
    scale: float | None, window: int,
) -> Any:  # fmt: skip
    rows, keys, values = (x.swapaxes(1, 2) for x in (q, k, v))
    y, _ = operator("paged_attention")(
        flat(lowering, rows), keys, values, blocks, lengths, q_starts, scale, True, window
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
    q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any, scale: float | None
) -> Any:  # fmt: skip
    """q [b, hq, s, d], k and v [b, hkv, t, d]; of the keys that each query keeps. With q_starts,
    of the keys before it that its sequence keeps."""
    return _attend_kept(None, q, k, v, blocks, lengths, q_starts, scale)


@internal(attend_kept)
def convert_attend_kept(node: Node, lowering: Any, *args: Any) -> Any:
    return _attend_kept(lowering, *args)


def _attend_kept(
    lowering: Any, q: Any, k: Any, v: Any, blocks: Any, lengths: Any, q_starts: Any,
    scale: float | None,
) -> Any:  # fmt: skip
    rows = q.swapaxes(1, 2)
    caches = [flat(lowering, x.swapaxes(1, 2)) for x in (k, v)]
    keys, values = (x.reshape([x.shape[0], 1, *x.shape[1:]]) for x in caches)
    y, _ = operator("paged_attention")(
        flat(lowering, rows), keys, values, blocks, lengths, q_starts, scale, q_starts is not None
    )
    return y.reshape([*rows.shape[:3], v.shape[3]]).swapaxes(1, 2)
