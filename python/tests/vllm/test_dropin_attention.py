# SPDX-License-Identifier: Apache-2.0
"""Attention, its cache and its slots under vLLM's names, against what they mean in f64."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import pytest

torch = pytest.importorskip("torch")

import anyop  # noqa: E402
from anyop.vllm import _dropin  # noqa: E402

_dropin.load("0.32.0")
C = torch.ops._C
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@dataclass
class Case:
    """A batch: of each request the tokens that are new and all of them."""

    new: tuple[int, ...] = (1, 5, 1, 17)
    all: tuple[int, ...] = (40, 5, 1, 33)
    heads: int = 4
    kv_heads: int = 2
    size: int = 64
    block: int = 16
    dtype: torch.dtype = torch.float32
    causal: bool = True
    window: int = -1
    softcap: float = 0.0
    alibi: bool = False
    sinks: torch.dtype | None = None
    dynamic: tuple[bool, ...] = ()
    cache: str = "auto"
    k_scale: float = 1.0
    v_scale: float = 1.0


class Batch:
    """Tensors as vLLM's CPU backend makes them: keys and values are halves of one allocation."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case, c = case, case
        n = len(c.new)
        most = max(math.ceil(length / c.block) for length in c.all)
        blocks = torch.randperm(n * most + 1)[: n * most].to(torch.int32)
        self.table = torch.zeros(n + 3, most, dtype=torch.int32)[:n]
        self.table[:] = blocks.view(n, most)
        self.starts = torch.tensor([0, *itertools.accumulate(c.new)], dtype=torch.int32)
        self.lengths = torch.tensor(c.all, dtype=torch.int32)
        self.positions = torch.cat(
            [torch.arange(length - new, length) for new, length in zip(c.new, c.all, strict=True)]
        )
        tokens = sum(c.new)
        self.query = torch.randn(tokens, c.heads, c.size).to(c.dtype)
        self.past_keys = [torch.randn(m, c.kv_heads, c.size).to(c.dtype) for m in c.all]
        self.past_values = [torch.randn(m, c.kv_heads, c.size).to(c.dtype) for m in c.all]
        stored = torch.uint8 if c.cache != "auto" else c.dtype
        memory = torch.zeros(n * most + 1, c.kv_heads, c.block, 2 * c.size, dtype=stored)
        halves = memory.view(n * most + 1, c.kv_heads, 2 * c.block, c.size)
        self.key_cache, self.value_cache = halves.chunk(2, dim=2)
        self.alibi = torch.rand(c.heads) if c.alibi else None
        self.sinks = torch.randn(c.heads).to(c.sinks) if c.sinks else None
        self.dynamic = torch.tensor(c.dynamic) if c.dynamic else None

    def fill(self) -> None:
        """Stores the keys and values of every token, by their slots."""
        c = self.case
        for i, length in enumerate(c.all):
            slots = torch.full((length + 2,), -7)
            C.compute_slot_mapping_kernel_impl(
                torch.tensor([0, length], dtype=torch.int32),
                torch.arange(length),
                self.table[i:],
                slots,
                c.block,
            )
            assert (slots[length:] == -7).all()
            fill = (c.k_scale, c.v_scale, c.cache)
            C.cpu_attn_reshape_and_cache(
                self.past_keys[i],
                self.past_values[i],
                self.key_cache,
                self.value_cache,
                slots[:length],
                "vec",
                *fill,
            )

    def metadata(self) -> torch.Tensor:
        c = self.case
        return C.get_scheduler_metadata(
            len(c.new),
            c.heads,
            c.kv_heads,
            c.size,
            self.lengths,
            c.dtype,
            self.starts,
            c.causal,
            c.window,
            "vec",
            True,
            self.dynamic,
            c.cache,
        )

    def arguments(self, output: torch.Tensor) -> tuple:
        c = self.case
        return (
            self.query,
            self.key_cache,
            self.value_cache,
            output,
            self.starts,
            self.lengths,
            c.size**-0.5,
            c.causal,
            self.alibi,
            c.window,
            self.table,
            c.softcap,
            self.metadata(),
            self.sinks,
            self.dynamic,
            c.k_scale,
            c.v_scale,
            c.cache,
        )

    def run(self) -> torch.Tensor:
        output = torch.full_like(self.query, float("nan"))
        C.cpu_attention_with_kv_cache(*self.arguments(output))
        return output

    def expected(self) -> torch.Tensor:
        c, results = self.case, []
        for i, (new, length) in enumerate(zip(c.new, c.all, strict=True)):
            q = self.query[int(self.starts[i]) :][:new].double()
            k = stored(self.past_keys[i], c.cache, c.k_scale)
            v = stored(self.past_values[i], c.cache, c.v_scale)
            k, v = (x.repeat_interleave(c.heads // c.kv_heads, 1) for x in (k, v))
            scores = torch.einsum("qhd,khd->hqk", q, k) * c.size**-0.5
            if c.softcap:
                scores = c.softcap * torch.tanh(scores / c.softcap)
            distance = torch.arange(length)[None] - torch.arange(length - new, length)[:, None]
            if self.alibi is not None:
                scores = scores + self.alibi.double()[:, None, None] * distance
            causal = c.dynamic[i] if c.dynamic else c.causal
            hidden = distance > 0 if causal else torch.zeros_like(distance, dtype=torch.bool)
            if c.window >= 0:
                hidden = hidden | (distance.abs() >= c.window)
            scores = scores.masked_fill(hidden, float("-inf"))
            if self.sinks is not None:
                sinks = self.sinks.double()[:, None, None].expand(-1, new, 1)
                scores = torch.cat([scores, sinks], -1)
            weights = scores.softmax(-1)[..., :length]
            results.append(torch.einsum("hqk,khd->qhd", weights, v))
        return torch.cat(results)


def stored(x: torch.Tensor, cache: str, scale: float) -> torch.Tensor:
    """What comes back of a row that the cache holds."""
    if cache == "auto":
        return x.double()
    return (x.float() / scale).to(torch.float8_e4m3fn).double() * scale


def check(case: Case) -> Batch:
    batch = Batch(case)
    batch.fill()
    expected = batch.expected()
    tolerance = TOLERANCE[case.dtype]
    torch.testing.assert_close(batch.run().double(), expected, rtol=tolerance, atol=tolerance)
    return batch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [32, 64, 80, 112, 128, 192, 512])
def test_any_head_size(dtype: torch.dtype, size: int) -> None:
    check(Case(dtype=dtype, size=size))


@pytest.mark.parametrize("block", [1, 7, 16, 128])
def test_any_block_size(block: int) -> None:
    check(Case(block=block))


FEATURES = {
    "one_token": Case(new=(1, 1, 1), all=(130, 1, 16)),
    "prefill": Case(new=(33, 70), all=(33, 70)),
    "window": Case(window=9),
    "window_of_one": Case(window=1),
    "encoder": Case(new=(7, 20), all=(7, 20), causal=False),
    "encoder_window": Case(new=(7, 20), all=(7, 20), causal=False, window=4),
    "cross_attention": Case(new=(3, 1), all=(50, 9), causal=False),
    "softcap": Case(softcap=2.5),
    "alibi": Case(alibi=True),
    "sinks_f32": Case(sinks=torch.float32),
    "sinks_bf16": Case(sinks=torch.bfloat16),
    "sinks_f16": Case(sinks=torch.float16),
    "sinks_window": Case(sinks=torch.float32, window=5),
    "dynamic_causal": Case(causal=False, dynamic=(True, False, False, True)),
    "dynamic_causal_window": Case(causal=False, window=3, dynamic=(False, True, True, False)),
    "one_kv_head": Case(heads=8, kv_heads=1),
    "no_sharing": Case(heads=3, kv_heads=3),
    "fp8": Case(cache="fp8", k_scale=0.02, v_scale=0.05),
    "fp8_e4m3": Case(cache="fp8_e4m3", size=80, window=9, sinks=torch.float32),
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_features(name: str, dtype: torch.dtype) -> None:
    check(replace(FEATURES[name], dtype=dtype))


def test_dynamic_causal_of_numbers() -> None:
    batch = check(Case(causal=False, dynamic=(True, False, False, True)))
    output = batch.run()
    batch.dynamic = batch.dynamic.to(torch.int32)
    assert torch.equal(batch.run(), output)


def test_nothing_is_copied() -> None:
    """The halves of vLLM's cache and parts of a joint projection are read where they are."""
    with anyop.strict():
        batch = Batch(Case(dtype=torch.bfloat16))
        joint = torch.randn(24, 4 + 2 * 2, 64).to(torch.bfloat16)
        query, key, value = joint.split([4, 2, 2], dim=1)
        slots = torch.arange(24)
        C.cpu_attn_reshape_and_cache(key, value, batch.key_cache, batch.value_cache, slots, "vec")
        batch.query = query
        batch.run()
    assert torch.equal(batch.key_cache[0, :, 3], key[3])
    assert torch.equal(batch.value_cache[1, 1, 2], value[18, 1])


def test_padding_is_skipped() -> None:
    """Slots of -1, and keys without a slot."""
    batch = Batch(Case())
    key = torch.randn(6, 2, 64)
    slots = torch.tensor([3, -1, 20, -1])
    C.cpu_attn_reshape_and_cache(key, key, batch.key_cache, batch.value_cache, slots, "vec")
    kept = torch.zeros_like(batch.key_cache)
    kept[0, :, 3], kept[1, :, 4] = key[0], key[2]
    assert torch.equal(batch.key_cache, kept)
    assert torch.equal(batch.value_cache, kept)
    C.cpu_attn_reshape_and_cache(
        key[:1], key[:1], batch.key_cache, batch.value_cache, torch.tensor([0, -1, 99999]), "vec"
    )
    assert torch.equal(batch.key_cache[0, :, 0], key[0])


def test_slots() -> None:
    table = torch.tensor([[5, 2], [9, 4], [0, 0]], dtype=torch.int32)
    slots = torch.full((10,), -7)
    C.compute_slot_mapping_kernel_impl(
        torch.tensor([0, 3, 5], dtype=torch.int32),
        torch.tensor([2, 3, 4, 0, 5]),
        table,
        slots,
        4,
    )
    assert slots.tolist() == [22, 23, 8, 36, 17] + [-7] * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("latent", "rotated", "block"), [(512, 64, 16), (48, 16, 5), (64, 0, 16)])
def test_latent_attention(dtype: torch.dtype, latent: int, rotated: int, block: int) -> None:
    torch.manual_seed(0)
    query = torch.randn(3, 4, latent + rotated).to(dtype)
    cache = torch.randn(20, block, latent + rotated).to(dtype)
    lengths = torch.tensor([1, 13, 31], dtype=torch.int32)
    table = torch.randperm(20)[: 3 * 6].view(3, 6)[:, : max(1, math.ceil(31 / block))]
    table = torch.arange(3 * math.ceil(31 / block)).view(3, -1).to(torch.int32) % 20
    out = torch.full((3, 4, latent), float("nan"), dtype=dtype)
    C.mla_decode_kvcache(out, query, cache, 0.1, table, lengths)
    for i, length in enumerate(lengths.tolist()):
        keys = cache[table[i].long()].flatten(0, 1)[:length].double()
        weights = (query[i].double() @ keys.T * 0.1).softmax(-1)
        expected = weights @ keys[:, :latent]
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(out[i].double(), expected, rtol=tolerance, atol=tolerance)


def refused(match: str, call: object, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == match


def test_cache_dtype_without_a_kernel() -> None:
    batch = Batch(replace(Case(), cache="fp8_e5m2"))
    text = (
        "_C.get_scheduler_metadata: kv_cache_dtype is 'fp8_e5m2', but a cache is read as auto, "
        "float32, float16, bfloat16, fp8 or fp8_e4m3. Try --kv-cache-dtype fp8_e4m3."
    )
    refused(text, batch.metadata, NotImplementedError)


def test_wrong_calls() -> None:
    batch = Batch(Case())
    batch.fill()
    output = torch.empty_like(batch.query)

    def attend(place: int, value: object) -> object:
        arguments = list(batch.arguments(output))
        arguments[place] = value
        return lambda: C.cpu_attention_with_kv_cache(*arguments)

    name = "_C.cpu_attention_with_kv_cache"
    refused(
        f"{name}: query has 2 dimensions, but must be [tokens, heads, head size].",
        attend(0, batch.query[0]),
    )
    refused(
        f"{name}: key_cache has 3 dimensions, but must be [blocks, heads, block size, head size].",
        attend(1, batch.key_cache[0]),
    )
    refused(
        f"{name}: scheduler_metadata is of 4 requests, but seq_lens, block_table and "
        "query_start_loc tell of 3. Try the metadata of this batch.",
        attend(5, batch.lengths[:3]),
    )
    refused(
        f"{name}: s_aux is Double, but must be Float, BFloat16 or Half.",
        attend(13, torch.zeros(4, dtype=torch.float64)),
    )
    refused(
        f"{name}: key_cache is Float, but an fp8 cache must be Byte.",
        attend(17, "fp8"),
    )
    refused(
        f"{name}: k_scale is 0.000000, but must be above 0, because numbers are stored divided by "
        "it.",
        attend(15, 0.0),
    )
    table = batch.table.clone()
    table[1, 0] = 99999
    refused(
        "paged_attention: block_table[1, 0] is 99999, but must be less than 13 (the blocks of "
        "key_cache). Try -1 for a block that does not exist.",
        attend(10, table),
    )
    refused(
        "paged_attention: seq_lens[3] is 99999, but must be at most 48 (3 columns of block_table, "
        "blocks of 16).",
        attend(5, torch.tensor([40, 5, 1, 99999], dtype=torch.int32)),
    )


def test_slots_out_of_the_cache() -> None:
    batch = Batch(Case())
    key = torch.randn(1, 2, 64)
    refused(
        "reshape_and_cache: slot_mapping[0] is 208, but must be less than 208 (nb*bs, nb is 13, bs "
        "is 16).",
        lambda: C.cpu_attn_reshape_and_cache(
            key, key, batch.key_cache, batch.value_cache, torch.tensor([208]), "vec"
        ),
    )


def test_positions_beyond_the_table() -> None:
    refused(
        "compute_slot_mapping: positions[0] is 64, but must be less than 64 (4 blocks of 16, the "
        "width of block_table).",
        lambda: C.compute_slot_mapping_kernel_impl(
            torch.tensor([0, 1], dtype=torch.int32),
            torch.tensor([64]),
            torch.zeros(1, 4, dtype=torch.int32),
            torch.zeros(1, dtype=torch.int64),
            16,
        ),
    )
