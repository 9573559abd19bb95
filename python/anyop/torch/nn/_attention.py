# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

import torch

from anyop.torch.nn._operators import operators
from anyop.torch.nn._script import Unscripted

_ops = operators("Attention")


class PagedBatch(NamedTuple):
    """Where the tokens of a step and the keys that they see lie in a paged cache."""

    block_table: torch.Tensor  # [b, blocks]: the blocks of each sequence, in order
    seq_lens: torch.Tensor  # [b]: keys of each sequence, those of this step included
    query_start_loc: torch.Tensor | None  # [b + 1]: its first token; None: one token each
    slot_mapping: torch.Tensor  # [t]: block * block size + offset of each token; -1: not stored


class Attention(Unscripted):
    """Softmax attention of packed sequences, on fresh keys or on a paged cache of them.

    num_kv_heads     heads of keys and values, each shared by num_heads / num_kv_heads
    scale            of the scores; None: 1 / sqrt(head_size)
    sliding_window   how many keys a token sees, its own included; None: all
    logits_soft_cap  c: scores become c * tanh(score / c)
    alibi_slopes     one per head; sinks: one more score per head

    It has no parameters. k_scale and v_scale, one per key head, are buffers that may be set for
    caches of i8 or f8e4m3.
    """

    k_scale: torch.Tensor | None
    v_scale: torch.Tensor | None

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float | None = None,
        num_kv_heads: int | None = None,
        *,
        causal: bool = True,
        sliding_window: int | None = None,
        logits_soft_cap: float = 0.0,
        alibi_slopes: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.num_heads, self.head_size, self.scale = num_heads, head_size, scale
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.causal, self.logits_soft_cap = causal, logits_soft_cap
        self.sliding_window = sliding_window
        for name, value in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
            self.register_buffer(name, value, persistent=False)
        for name in ("k_scale", "v_scale"):
            self.register_buffer(name, None, persistent=False)

    def new_cache(
        self,
        num_blocks: int,
        block_size: int = 16,
        dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Empty caches of keys and of values, each [num_blocks, block_size, heads, head_size]."""
        shape = (num_blocks, block_size, self.num_kv_heads, self.head_size)
        key = torch.zeros(shape, dtype=dtype, device=device)
        return key, torch.zeros_like(key)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cache: tuple[torch.Tensor, torch.Tensor] | None = None,
        batch: PagedBatch | None = None,
        query_start_loc: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """query [..., heads * head_size] or [..., heads, head_size], key and value likewise.

        With a cache and a batch, keys and values are stored, and the queries see what the cache
        then holds of their sequences (no gradient). Without, they see the keys given here: the
        sequences of query_start_loc [b + 1], or else those of the leading dimensions, the last of
        which counts tokens. Returns query's shape.
        """
        q = query.reshape(-1, self.num_heads, self.head_size)
        k = key.reshape(-1, self.num_kv_heads, self.head_size)
        v = value.reshape(-1, self.num_kv_heads, self.head_size)
        # The operator counts the keys before a token's own one; -1 is no limit.
        window = -1 if self.sliding_window is None else self.sliding_window - 1
        options = {
            "scale": self.scale,
            "causal": self.causal,
            "window_left": window,
            "softcap": self.logits_soft_cap,
            "alibi_slopes": self.alibi_slopes,
            "sinks": self.sinks,
        }
        if cache is not None:
            if batch is None:
                raise ValueError("Attention: a cache is given, but no batch. Give a PagedBatch.")
            _ops.store(k, v, *cache, batch.slot_mapping, self.k_scale, self.v_scale)
            scales = {"k_scale": self.k_scale, "v_scale": self.v_scale}
            y = _ops.paged(q, *cache, *batch[:3], **options, **scales)[0]
        else:
            starts = self._starts(query) if query_start_loc is None else query_start_loc
            y = _ops.attention(q, k, v, starts, starts, **options)[0]
        done: torch.Tensor = y.view(query.shape)
        return done

    def _starts(self, query: torch.Tensor) -> torch.Tensor:
        """[0, s, 2 s, ...] for query [b, s, ...], [0, t] for query [t, ...]."""
        by_heads = query.shape[-1] == self.head_size and query.shape[-2:-1] == (self.num_heads,)
        leading = query.shape[: -2 if by_heads else -1]
        tokens = leading[-1] if leading else 1
        count = leading.numel() // max(tokens, 1)
        return torch.arange(count + 1, dtype=torch.int32, device=query.device) * tokens

    def extra_repr(self) -> str:
        window = "" if self.sliding_window is None else f", sliding_window={self.sliding_window}"
        return (
            f"num_heads={self.num_heads}, head_size={self.head_size}, "
            f"num_kv_heads={self.num_kv_heads}, causal={self.causal}{window}"
        )
