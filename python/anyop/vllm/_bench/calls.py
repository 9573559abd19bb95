# SPDX-License-Identifier: Apache-2.0
"""Calls of vLLM's operators, made alike in both environments: the same seeds, the same numbers.

A function gets the side and a row's sizes, and returns a call and what the call fills, or None
where the call returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

BLOCK = 32
Made = tuple[Callable[[], Any], Any]


def _dtype(side: Any, a: Any) -> Any:
    return {"bf16": side.torch.bfloat16, "f32": side.torch.float32}[a.dtype]


def _normal(side: Any, a: Any, *shape: int, scale: float = 1.0) -> Any:
    return (side.torch.randn(shape) * scale).to(_dtype(side, a))


def _isa(side: Any, a: Any) -> str:
    """What vLLM chooses for a machine with x86; on others the library has one kernel."""
    amx = side.torch.cpu._is_amx_tile_supported() and a.dtype == "bf16"
    return "amx" if amx else "vec"


def _caches(side: Any, a: Any, tokens: int) -> tuple[Any, Any]:
    # As vLLM makes them: keys and values are halves of one tensor, so that neither is contiguous.
    blocks = (tokens + BLOCK - 1) // BLOCK
    both = side.torch.zeros(blocks, a.kv_heads, 2 * BLOCK, a.head_size, dtype=_dtype(side, a))
    key, value = both.chunk(2, 2)
    return key, value


def attention(side: Any, a: Any) -> Made:
    """Queries of `requests`, the last `rows` of `keys` tokens each."""
    t, isa = side.torch, _isa(side, a)
    t.manual_seed(0)
    tokens = a.requests * a.keys
    caches = _caches(side, a, tokens)
    rows = (_normal(side, a, tokens, a.kv_heads, a.head_size) for _ in range(2))
    side.ops.cpu_attn_reshape_and_cache(*rows, *caches, t.arange(tokens), isa)
    query = _normal(side, a, a.requests * a.rows, a.heads, a.head_size)
    starts = t.arange(a.requests + 1, dtype=t.int32) * a.rows
    lengths = t.full((a.requests,), a.keys, dtype=t.int32)
    table = t.arange(tokens // BLOCK, dtype=t.int32).reshape(a.requests, -1)
    plan = side.ops.get_scheduler_metadata(
        a.requests, a.heads, a.kv_heads, a.head_size, lengths, query.dtype, starts, True, -1, isa,
        True, None,
    )  # fmt: skip
    out = t.empty_like(query)
    run = partial(
        side.ops.cpu_attention_with_kv_cache, query, *caches, out, starts, lengths,
        a.head_size**-0.5, True, None, -1, table, 0.0, plan, None, None,
    )  # fmt: skip
    return run, out


def reshape_and_cache(side: Any, a: Any) -> Made:
    t = side.torch
    t.manual_seed(0)
    caches = _caches(side, a, 4096)
    rows = [_normal(side, a, a.tokens, a.kv_heads, a.head_size) for _ in range(2)]
    slots = t.randperm(4096)[: a.tokens]
    run = partial(side.ops.cpu_attn_reshape_and_cache, *rows, *caches, slots, _isa(side, a))

    # The layout of a cache is a library's own: as many numbers, and their sum, tell enough.
    def checked() -> Any:
        run()
        return t.stack([cache.double().sum() for cache in caches])

    return _first(checked, run), None


def _first(first: Callable[[], Any], rest: Callable[[], Any]) -> Callable[[], Any]:
    """The first call is looked at, the rest is timed."""
    left = [first]
    return lambda: (left.pop() if left else rest)()


def rotary(side: Any, a: Any) -> Made:
    t = side.torch
    t.manual_seed(0)
    query = _normal(side, a, a.tokens, a.heads * a.head_size)
    key = _normal(side, a, a.tokens, a.kv_heads * a.head_size)
    angles = t.arange(2048.0)[:, None] * 10000.0 ** -(t.arange(0, a.head_size, 2) / a.head_size)
    table = t.cat([angles.cos(), angles.sin()], -1).to(query.dtype)
    positions = t.arange(a.tokens)
    run = partial(side.ops.rotary_embedding, positions, query, key, a.head_size, table, True)
    return run, query


class _Linear:
    """A call that gives its packed weight back."""

    def __init__(self, side: Any, x: Any, weight: Any, out: Any) -> None:
        self._ops = side.ops
        self._handle = side.ops.create_onednn_mm_handler(weight.t(), 128)
        handle = side.torch.tensor(self._handle, dtype=side.torch.int64)
        self._weight = weight
        self._run = partial(side.ops.onednn_mm, out, x, None, handle)

    def __call__(self) -> Any:
        return self._run()

    def __del__(self) -> None:
        self._ops.release_dnnl_matmul_handler(self._handle)


def linear(side: Any, a: Any) -> Made:
    side.torch.manual_seed(0)
    x = _normal(side, a, a.tokens, a.k)
    weight = _normal(side, a, a.n, a.k, scale=a.k**-0.5)
    out = side.torch.empty(a.tokens, a.n, dtype=x.dtype)
    return _Linear(side, x, weight, out), out


def silu_and_mul(side: Any, a: Any) -> Made:
    side.torch.manual_seed(0)
    x = _normal(side, a, a.tokens, 2 * a.n)
    out = side.torch.empty(a.tokens, a.n, dtype=x.dtype)
    return partial(side.ops.silu_and_mul, out, x), out


def rms_norm(side: Any, a: Any) -> Made:
    side.torch.manual_seed(0)
    x, weight = _normal(side, a, a.tokens, a.n), _normal(side, a, a.n)
    out = side.torch.empty_like(x)
    return partial(side.ops.rms_norm, out, x, weight, 1e-5), out


def fused_add_rms_norm(side: Any, a: Any) -> Made:
    side.torch.manual_seed(0)
    x, residual = (_normal(side, a, a.tokens, a.n) for _ in range(2))
    return partial(side.ops.fused_add_rms_norm, x, residual, _normal(side, a, a.n), 1e-5), x


def fused_moe(side: Any, a: Any) -> Made:
    t, isa = side.torch, _isa(side, a)
    t.manual_seed(0)
    x = _normal(side, a, a.tokens, a.k)
    shapes = ((a.experts, 2 * a.n, a.k), (a.experts, a.k, a.n))
    packed = []
    for shape in shapes:
        weight = _normal(side, a, *shape, scale=shape[-1] ** -0.5)
        packed.append(t.empty_like(weight))
        side.ops.prepack_moe_weight(weight, packed[-1], isa)
    scores, ids = t.randn(a.tokens, a.experts).topk(a.chosen)
    out = t.empty_like(x)
    run = partial(
        side.ops.cpu_fused_moe, out, x, *packed, None, None, scores.softmax(-1), ids.to(t.int32),
        False, "silu", isa,
    )  # fmt: skip
    return run, out


def slot_mapping(side: Any, a: Any) -> Made:
    t = side.torch
    starts = t.arange(a.requests + 1, dtype=t.int32) * a.rows
    positions = t.arange(a.rows).repeat(a.requests)
    table = t.randperm(a.requests * 64, generator=t.Generator().manual_seed(0))
    slots = t.zeros(a.requests * a.rows, dtype=t.int64)
    run = partial(
        side.ops.compute_slot_mapping_kernel_impl, starts, positions,
        table.reshape(a.requests, 64).to(t.int32), slots, BLOCK,
    )  # fmt: skip
    return run, slots


def greedy_argmax(side: Any, a: Any) -> Made:
    side.torch.manual_seed(0)
    logits = side.torch.randn(a.tokens, a.n).to(_dtype(side, a))
    for row, column in enumerate(side.torch.randperm(a.n)[: a.tokens].tolist()):
        logits[row, column] = 9.0  # one that is no other's equal in bf16
    return partial(side.ops.greedy_argmax, logits), None
