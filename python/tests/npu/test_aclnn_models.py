# SPDX-License-Identifier: Apache-2.0
"""Operators that torch_npu adds to torch, which call operators of aclnn: against plain formulas in
float64.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_npu

O = torch.ops.npu  # noqa: E741
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def rand(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ints(low: int, high: int, *sizes: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=torch.Generator().manual_seed(1)).to(dtype)


def close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    assert got.device.type == "npu" and got.shape == want.shape, (got.shape, want.shape)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got.cpu().double(), want.double(), rtol=tolerance, atol=tolerance)


def same(got: torch.Tensor, want: Any) -> None:
    assert got.device.type == "npu"
    assert got.cpu().tolist() == (want.tolist() if isinstance(want, torch.Tensor) else want)


def rms(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    s = 1 / torch.sqrt(x.double().square().mean(-1, True) + eps)
    return x.double() * s, s


def layer(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mean = x.double().mean(-1, True)
    rstd = 1 / torch.sqrt((x.double() - mean).square().mean(-1, True) + eps)
    return (x.double() - mean) * rstd, mean, rstd


def silu(x: torch.Tensor) -> torch.Tensor:
    return x.double() / (1 + torch.exp(-x.double()))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    d = x.double()
    return d / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (d + 0.044715 * d**3)))


# ---- Norms.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(2, 8), (3, 2, 40), (1, 7)])
def test_rms_norms(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    x, y = rand(*sizes, dtype=dtype), rand(*sizes, seed=1, dtype=dtype)
    gamma = rand(sizes[-1], seed=2, dtype=dtype)
    want, s = rms(x, 1e-5)
    got = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), 1e-5)
    close(got[0], want * gamma.double(), dtype)
    close(got[1], s)
    got = O.npu_gemma_rms_norm(x.npu(), gamma.npu(), 1e-5)
    close(got[0], want * (gamma.double() + 1), dtype)
    added = (x.double() + y.double()).to(dtype)
    want, s = rms(added, 1e-6)
    got = torch_npu.npu_add_rms_norm(x.npu(), y.npu(), gamma.npu())
    close(got[0], want * gamma.double(), dtype)
    close(got[1], s)
    same(got[2], added)
    first, second = x.npu(), y.npu()
    close(O.npu_add_rms_norm_v2(first, second, gamma.npu()), s)
    close(first, want * gamma.double(), dtype)
    same(second, added)
    if dtype != torch.float32:
        got = O.npu_add_rms_norm_cast(x.npu(), y.npu(), gamma.npu())
        close(got[0], want * gamma.double(), dtype)
        close(got[1], want * gamma.double(), dtype)
        assert got[0].dtype == torch.float32 and got[1].dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norms(dtype: torch.dtype) -> None:
    x, y = rand(3, 2, 24, dtype=dtype), rand(3, 2, 24, seed=1, dtype=dtype)
    gamma, beta = rand(24, seed=2, dtype=dtype), rand(24, seed=3, dtype=dtype)
    g, b = gamma.double(), beta.double()
    want, mean, rstd = layer(x.double() + y.double(), 1e-5)
    got = O.npu_add_layer_norm(x.npu(), y.npu(), gamma.npu(), beta.npu(), 1e-5, True)
    close(got[0], want * g + b, dtype)
    close(got[1], mean)
    close(got[2], rstd)
    close(got[3], x.double() + y.double(), dtype)
    want, mean, rstd = layer(x.double() * 0.3 + y.double(), 1e-6)
    got = O.npu_deep_norm(x.npu(), y.npu(), beta.npu(), gamma.npu())
    close(got[0], mean)
    close(got[1], rstd)
    close(got[2], want * g + b, dtype)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_group_norms(scale: float) -> None:
    x, gamma, beta = rand(2, 6, 5), rand(6, seed=1), rand(6, seed=2)
    normal = torch.nn.functional.group_norm(
        x.double(), 2, gamma.double(), beta.double(), 1e-5
    )
    want = normal / (1 + torch.exp(-scale * normal))
    got = O.npu_group_norm_swish(x.npu(), 2, gamma.npu(), beta.npu(), 1e-5, scale)
    close(got[0], want)
    if scale == 1:
        got = O.npu_group_norm_silu(x.npu(), gamma.npu(), beta.npu(), 2)
        close(got[0], want)
    close(got[1], x.double().reshape(2, 2, 15).mean(-1))


# ---- Gates.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [-1, 0])
def test_gates(dtype: torch.dtype, dim: int) -> None:
    x = rand(4, 12, dtype=dtype)
    a, b = x.double().chunk(2, dim)
    close(torch_npu.npu_swiglu(x.npu(), dim), silu(a) * b, dtype)
    got = torch_npu.npu_geglu(x.npu(), dim, 1)
    close(got[0], a * gelu_tanh(b), dtype)
    close(got[1], gelu_tanh(b), dtype)
    d = x.double()
    close(torch_npu.npu_fast_gelu(x.npu()), d / (1 + torch.exp(-1.702 * d)), dtype)
    close(O.npu_gelu(x.npu(), approximate="tanh"), gelu_tanh(x), dtype)
    close(O.npu_gelu(x.npu()), torch.nn.functional.gelu(d), dtype)
    left, right = d.chunk(2, -1)
    close(O.npu_gelu_mul(x.npu(), approximate="tanh"), gelu_tanh(left) * right, dtype)
    g, u = d[:, ::2].clamp(max=0.5), d[:, 1::2].clamp(-0.5, 0.5)
    want = g / (1 + torch.exp(-1.702 * g)) * (u + 1)
    close(O.npu_clipped_swiglu(x.npu(), limit=0.5), want, dtype)


# ---- Rotations.


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str) -> torch.Tensor:
    d, other = x.double(), torch.empty_like(x.double())
    half = x.size(-1) // 2
    for j in range(half):
        a, b = (j, half + j) if mode == "half" else (2 * j, 2 * j + 1)
        other[..., a], other[..., b] = -d[..., b], d[..., a]
    return d * cos.double() + other * sin.double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_mul_of_four_dimensions(dtype: torch.dtype, mode: str) -> None:
    x = rand(2, 3, 5, 8, dtype=dtype)
    cos, sin = rand(1, 3, 1, 8, seed=1, dtype=dtype), rand(1, 3, 1, 8, seed=2, dtype=dtype)
    got = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), mode)
    close(got, turned(x, cos, sin, mode), dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotations_of_queries_and_keys(dtype: torch.dtype) -> None:
    q, k = rand(1, 2, 3, 128, dtype=dtype), rand(1, 2, 3, 128, seed=1, dtype=dtype)
    cos, sin = rand(1, 2, 1, 128, seed=2, dtype=dtype), rand(1, 2, 1, 128, seed=3, dtype=dtype)
    got = O.npu_apply_rotary_pos_emb(q.npu(), k.npu(), cos.npu(), sin.npu())
    close(got[0], turned(q, cos, sin, "half"), dtype)
    close(got[1], turned(k, cos, sin, "half"), dtype)
    x, c, s = rand(2, 3, 1, 64, dtype=dtype), rand(2, 1, 1, 64, dtype=dtype), rand(2, 1, 1, 64, seed=4)
    s = s.to(dtype)
    want = turned(torch.cat([x[..., ::2], x[..., 1::2]], -1), c, s, "half")
    close(O.npu_interleave_rope(x.npu(), c.npu(), s.npu()), want, dtype)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotation_by_positions(mode: str) -> None:
    q, k, table = rand(4, 32), rand(4, 16, seed=1), rand(9, 8, seed=2)
    at = torch.tensor([8, 0, 3, 3])
    cos, sin = (t.repeat(1, 2) if mode == "half" else t.repeat_interleave(2, 1)
                for t in table[at].chunk(2, -1))  # fmt: skip
    got = O.npu_mrope(
        at.npu(), q.npu(), k.npu(), table.npu(), 8, mrope_section=[0, 0, 0], rotary_mode=mode
    )
    for result, x in zip(got, (q, k), strict=True):
        want = turned(x.reshape(4, -1, 8), cos[:, None], sin[:, None], mode)
        close(result, want.reshape(x.shape))
    if mode == "half":
        axes = torch.stack([at, at.flip(0), torch.ones_like(at)])
        rows = [0, 0, 1, 2]  # sections of 2, 1 and 1 pairs
        c = torch.stack([table[axes[a], j] for j, a in enumerate(rows)], -1).repeat(1, 2)
        s = torch.stack([table[axes[a], 4 + j] for j, a in enumerate(rows)], -1).repeat(1, 2)
        got = O.npu_mrope(
            axes.npu(), q.npu(), k.npu(), table.npu(), 8, mrope_section=[2, 1, 1]
        )
        want = turned(q.reshape(4, -1, 8), c[:, None], s[:, None], "half")
        close(got[0], want.reshape(q.shape))


# ---- Caches.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cache_writes(dtype: torch.dtype) -> None:
    key, value = rand(3, 2, 16, dtype=dtype), rand(3, 2, 16, seed=1, dtype=dtype)
    caches = [torch.zeros(2, 16, 2, 16, dtype=dtype).npu() for _ in range(2)]
    slots = torch.tensor([17, 3, 30], dtype=torch.int32)
    O.npu_scatter_pa_kv_cache(key.npu(), value.npu(), *caches, slots.npu(), cache_mode="Norm")
    for cache, x in zip(caches, (key, value), strict=True):
        want = torch.zeros(32, 2, 16, dtype=dtype)
        want[slots.long()] = x
        same(cache, want.reshape(2, 16, 2, 16))
    table, index, rows = rand(4, 8, dtype=dtype), torch.tensor([[2], [0]]), rand(2, 8, dtype=dtype)
    there = table.npu()
    O.npu_scatter_nd_update_(there, index.npu(), rows.npu())
    want = table.clone()
    want[index[:, 0]] = rows
    same(there, want)
    states, places, fresh = rand(3, 6, 4, dtype=dtype), torch.tensor([5, 0, 2]), rand(3, 1, 4)
    there = states.npu()
    O.scatter_update_(there, places.npu(), fresh.to(dtype).npu(), -2)
    for row in range(3):
        states[row, places[row]] = fresh[row, 0].to(dtype)
    same(there, states)


def test_latent_keys_on_their_way_into_caches() -> None:
    dtype = torch.float16
    kv, gamma = rand(2, 1, 1, 576, dtype=dtype), rand(512, seed=1, dtype=dtype)
    cos, sin = rand(2, 1, 1, 64, seed=2, dtype=dtype), rand(2, 1, 1, 64, seed=3, dtype=dtype)
    k_cache, c_cache = (torch.zeros(3, 16, 1, n, dtype=dtype).npu() for n in (64, 512))
    got = O.npu_kv_rmsnorm_rope_cache(
        kv.npu(), gamma.npu(), cos.npu(), sin.npu(), torch.tensor([20, 3]).npu(), k_cache, c_cache,
        cache_mode="PA", is_output_kv=True,
    )  # fmt: skip
    c = rms(kv[..., :512], 1e-5)[0] * gamma.double()
    z = kv[..., 512:].double()
    k = turned(torch.cat([z[..., ::2], z[..., 1::2]], -1), cos, sin, "half")
    close(k_cache.reshape(48, 64)[[20, 3]], k.reshape(2, 64), dtype)
    close(c_cache.reshape(48, 512)[[20, 3]], c.reshape(2, 512), dtype)
    close(got[2], k, dtype)
    close(got[3], c, dtype)


def test_step_of_a_batch() -> None:
    tokens, positions, lens, slots = (torch.zeros(3, dtype=torch.int64).npu() for _ in range(4))
    lens.copy_(torch.tensor([5, 16, 1]))
    sampled, blocks = torch.tensor([[7], [8], [9]]), torch.tensor([[4, 0], [1, 2], [3, 0]])
    torch_npu.npu_advance_step_flashattn(
        tokens, sampled.npu(), positions, lens, slots, blocks.npu(), 3, 3, 16
    )
    same(tokens, [7, 8, 9])
    same(positions, [5, 16, 1])
    same(lens, [6, 17, 2])
    same(slots, [4 * 16 + 5, 2 * 16, 3 * 16 + 1])


# ---- Attention.


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of tensors [n, s, d]; a key that the mask marks is hidden."""
    each = q.size(0) // k.size(0)
    s = q.double() @ k.double().repeat_interleave(each, 0).transpose(1, 2) * scale
    if mask is not None:
        s = s.masked_fill(mask, -math.inf)
    lse = torch.logsumexp(s, -1, True)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.double()[:, None, None].expand_as(lse))
    return torch.exp(s - lse) @ v.double().repeat_interleave(each, 0), lse


def batch(k: int = 4, seq: int = 5, key_seq: int = 5, dtype: torch.dtype = torch.float16) -> Any:
    sizes = [(2, 4, seq, 8), (2, k, key_seq, 8), (2, k, key_seq, 8)]
    return [rand(*size, seed=i, dtype=dtype) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sparse", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_of_whole_sequences(dtype: torch.dtype, sparse: int, heads: int) -> None:
    q, k, v = batch(heads, dtype=dtype)
    hidden = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    given = hidden
    if sparse == 4:
        hidden = hidden | torch.tril(torch.ones(5, 5, dtype=torch.bool), -3)
    if sparse == 1:
        hidden = given = hidden.t().contiguous() & (torch.arange(5) != 0)
    want = [attention(q[i], k[i], v[i], 0.3, hidden) for i in range(2)]
    y, lse = torch.stack([a for a, _ in want]), torch.stack([b for _, b in want])
    mask = given.npu() if sparse < 2 else torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
    common = {"atten_mask": mask, "sparse_mode": sparse, "input_layout": "BNSD"}
    there = [t.npu() for t in (q, k, v)]
    tokens = {"pre_tokens": 2, "next_tokens": 0}
    got = torch_npu.npu_fused_infer_attention_score(
        *there, num_heads=4, num_key_value_heads=heads, scale=0.3, softmax_lse_flag=True,
        **tokens, **common,
    )  # fmt: skip
    close(got[0], y, dtype)
    close(got[1], lse, torch.float16)
    got = O.npu_fused_infer_attention_score_v2(
        *there, num_query_heads=4, num_key_value_heads=heads, softmax_scale=0.3,
        return_softmax_lse=True, **tokens, **common,
    )  # fmt: skip
    close(got[0], y, dtype)
    close(got[1], lse, torch.float16)
    got = torch_npu.npu_prompt_flash_attention(
        *there, num_heads=4, num_key_value_heads=heads, scale_value=0.3, **tokens, **common
    )
    close(got, y, dtype)


@pytest.mark.parametrize("layout", ["BSH", "BSND"])
def test_attention_by_layout_and_length(layout: str) -> None:
    q, k, v = batch()
    flat = [t.transpose(1, 2).contiguous() for t in (q, k, v)]
    there = [(t.flatten(2) if layout == "BSH" else t).npu() for t in flat]
    got = torch_npu.npu_fused_infer_attention_score(
        *there, num_heads=4, scale=0.3, input_layout=layout, actual_seq_lengths=[3, 5],
        actual_seq_lengths_kv=[4, 2],
    )[0].cpu()  # fmt: skip
    got = got.reshape(2, 5, 4, 8)
    for i, (n, m) in enumerate([(3, 4), (5, 2)]):
        want = attention(q[i, :, :n], k[i, :, :m], v[i, :, :m], 0.3)[0]
        close(got[i, :n].npu(), want.transpose(0, 1), torch.float16)


@pytest.mark.parametrize("sinks", [False, True])
def test_attention_of_packed_sequences(sinks: bool) -> None:
    q, k, v = (rand(7, 4, 8, seed=i, dtype=torch.float16) for i in range(3))
    sink = rand(4, seed=5, dtype=torch.float16) if sinks else None
    got, lse = O.npu_fused_infer_attention_score_v2(
        q.npu(), k.npu(), v.npu(), num_query_heads=4, softmax_scale=0.3, input_layout="TND",
        actual_seq_qlen=[2, 7], actual_seq_kvlen=[2, 7], sparse_mode=3, return_softmax_lse=True,
        atten_mask=torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu(),
        learnable_sink=sink.npu() if sink is not None else None,
    )  # fmt: skip
    for a, b in ((0, 2), (2, 7)):
        hidden = torch.triu(torch.ones(b - a, b - a, dtype=torch.bool), 1)
        part = [t[a:b].transpose(0, 1) for t in (q, k, v)]
        want, want_lse = attention(*part, 0.3, hidden, sink)
        close(got[a:b], want.transpose(0, 1), torch.float16)
        close(lse[a:b], want_lse.transpose(0, 1), torch.float16)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_over_blocks(masked: bool) -> None:
    q, cache = rand(2, 1, 32, dtype=torch.float16), rand(2, 6, 16, 16, seed=1, dtype=torch.float16)
    table = torch.tensor([[5, 0], [2, 4]], dtype=torch.int32)
    lens = [20, 7]
    mask = torch.zeros(2, 1, 32, dtype=torch.bool)
    mask[:, :, 3] = masked
    common = {
        "input_layout": "BSH", "block_table": table.npu(), "block_size": 16,
        "atten_mask": mask.npu() if masked else None,
    }  # fmt: skip
    there = [q.npu(), cache[0].npu(), cache[1].npu()]
    got = torch_npu.npu_incre_flash_attention(
        *there, num_heads=4, num_key_value_heads=2, scale_value=0.3, actual_seq_lengths=lens,
        **common,
    )  # fmt: skip
    fused = torch_npu.npu_fused_infer_attention_score(
        *there, num_heads=4, num_key_value_heads=2, scale=0.3, actual_seq_lengths_kv=lens, **common
    )[0]
    for i, n in enumerate(lens):
        k, v = (c[table[i].long()].reshape(32, 2, 8)[:n].transpose(0, 1) for c in cache)
        hidden = mask[i, :, :n]
        want = attention(q[i].reshape(1, 4, 8).transpose(0, 1), k, v, 0.3, hidden)[0]
        close(got[i], want.transpose(0, 1).reshape(1, 32), torch.float16)
        close(fused[i], want.transpose(0, 1).reshape(1, 32), torch.float16)


@pytest.mark.parametrize("layout", ["BNSD", "BSH", "SBH", "BSND"])
@pytest.mark.parametrize("second", [False, True])
def test_attention_of_training(layout: str, second: bool) -> None:
    q, k, v = batch()
    order = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3)}
    laid = [t.permute(order[layout]).contiguous() for t in (q, k, v)]
    there = [(t.flatten(2) if layout in ("BSH", "SBH") else t).npu() for t in laid]
    run = O.npu_fusion_attention_v2 if second else torch_npu.npu_fusion_attention
    y, top, total = run(*there, 4, layout, scale=0.3)[:3]
    want = torch.stack([attention(q[i], k[i], v[i], 0.3)[0] for i in range(2)])
    lse = torch.stack([attention(q[i], k[i], v[i], 0.3)[1] for i in range(2)])
    want = want.permute(order[layout])
    close(y, want.flatten(2) if layout in ("BSH", "SBH") else want, torch.float16)
    close((top + total.log())[..., :1], lse, torch.float16)


def test_attention_of_training_on_packed_sequences() -> None:
    q, k, v = (rand(7, 4, 8, seed=i, dtype=torch.float16) for i in range(3))
    y = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), 4, "TND", scale=0.3, actual_seq_qlen=[2, 7],
        actual_seq_kvlen=[3, 7],
    )[0]  # fmt: skip
    for (a, b), (c, d) in zip(((0, 2), (2, 7)), ((0, 3), (3, 7)), strict=True):
        part = [q[a:b].transpose(0, 1), k[c:d].transpose(0, 1), v[c:d].transpose(0, 1)]
        close(y[a:b], attention(*part, 0.3)[0].transpose(0, 1), torch.float16)


def test_parts_of_attention_are_joined() -> None:
    q, k, v = (rand(3, 4, 8, seed=i) for i in range(3))
    whole = attention(q, k, v, 0.3)
    parts = [attention(q, k[:, a:b], v[:, a:b], 0.3) for a, b in ((0, 1), (1, 4))]
    got = O.npu_attention_update(
        [p[1].float().reshape(12).npu() for p in parts],
        [p[0].float().reshape(12, 8).npu() for p in parts],
        0,
    )
    close(got[0], whole[0].reshape(12, 8))


# ---- Mixtures of experts.


@pytest.mark.parametrize("dtype", DTYPES)
def test_choice_of_experts(dtype: torch.dtype) -> None:
    x = rand(5, 8, dtype=dtype)
    p = torch.softmax(x.double(), -1)
    weights, ids = p.topk(2)
    got = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), k=2)
    close(got[0], weights, dtype)
    same(got[1], ids)
    same(got[2], [[i, 5 + i] for i in range(5)])
    done = torch.tensor([False, True, False, False, True])
    got = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), done.npu(), k=2)
    same(got[1], ids.masked_fill(done[:, None], 8))
    got = O.npu_moe_gating_top_k_softmax_v2(x.npu(), k=2, renorm=1)
    close(got[0], weights / weights.sum(-1, True), dtype)
    got = O.npu_moe_gating_top_k_softmax_v2(x.npu(), k=2, output_softmax=True)
    close(got[0], weights, dtype)
    close(got[2], p)


def test_choice_of_experts_by_groups() -> None:
    x, bias = rand(3, 256), rand(256, seed=1)
    got = O.npu_moe_gating_top_k(
        x.npu(), 8, k_group=4, group_count=8, bias=bias.npu(), group_select_mode=1, norm_type=1,
        out_flag=True, routed_scaling_factor=2.5,
    )  # fmt: skip
    p = torch.sigmoid(x.double())
    c = (p + bias.double()).reshape(3, 8, 32)
    groups = c.topk(2)[0].sum(-1).topk(4)[1]
    hidden = torch.ones(3, 8, dtype=torch.bool).scatter(1, groups, False)
    ids = c.masked_fill(hidden[..., None], -math.inf).reshape(3, 256).topk(8)[1]
    weights = p.gather(1, ids)
    same(got[1], ids)
    close(got[0], weights / weights.sum(-1, True) * 2.5)
    close(got[2], p)


def test_tokens_on_their_way_to_experts_and_back() -> None:
    x, experts = rand(3, 8), torch.tensor([[2, 0], [1, 2], [0, 2]], dtype=torch.int32)
    rows = torch.tensor([[0, 3], [1, 4], [2, 5]], dtype=torch.int32)
    expanded, places, ids = torch_npu.npu_moe_init_routing(x.npu(), rows.npu(), experts.npu(), 3)
    same(ids, [0, 0, 1, 2, 2, 2])
    source = [2, 0, 1, 0, 1, 2]  # tokens; of equals, first choices of all tokens come first
    flat = experts.reshape(-1)
    order = torch.argsort(flat, stable=True)
    source = [int(rows.reshape(-1)[i]) for i in order]
    same(expanded, x[[s % 3 for s in source]])
    same(places, [source.index(i) for i in range(6)])
    counts = torch_npu.npu_moe_compute_expert_tokens(ids, 4)
    same(counts, [2, 3, 6, 6])
    scales, bias, skips = rand(3, 2, seed=1).abs(), rand(4, 8, seed=2), rand(2, 3, 8, seed=3)
    got = torch_npu.npu_moe_finalize_routing(
        expanded, skips[0].npu(), skips[1].npu(), bias.npu(), scales.npu(), places, experts.npu()
    )
    want = skips.double().sum(0)
    for i in range(3):
        for j in range(2):
            want[i] += scales[i, j].double() * (x[i] + bias[experts[i, j]]).double()
    close(got, want)


@pytest.mark.parametrize("dropped", [-1, 4])
def test_experts_results_by_rows(dropped: int) -> None:
    y, places = rand(6, 8), torch.tensor([5, 1, 0, dropped, 2, 3], dtype=torch.int32)
    scales = rand(3, 2, seed=1)
    got = torch_npu.npu_moe_finalize_routing(
        y.npu(), None, None, None, scales.npu(), places.npu(), None, drop_pad_mode=2
    )
    want = torch.zeros(3, 8, dtype=torch.float64)
    for i in range(6):
        if places[i] >= 0:
            want[i // 2] += scales[i // 2, i % 2].double() * y[places[i]].double()
    close(got, want)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("gathers", [0, 1])
@pytest.mark.parametrize("quant", [-1, 1])
def test_tokens_of_a_range_of_experts(first: int, kind: int, gathers: int, quant: int) -> None:
    x, experts = rand(3, 8), torch.tensor([[2, 0], [1, 2], [0, 3]], dtype=torch.int32)
    got = O.npu_moe_init_routing_v2(
        x.npu(), experts.npu(), active_num=6, expert_num=4, expert_tokens_num_type=kind,
        expert_tokens_num_flag=True, active_expert_range=[first, 4], quant_mode=quant,
        row_idx_type=gathers,
    )  # fmt: skip
    flat = experts.reshape(-1).tolist()
    order = sorted((i for i in range(6) if flat[i] >= first), key=lambda i: (flat[i], i))
    rows = x[[i // 2 for i in order]].double()
    if quant == 1:
        scale = rows.abs().amax(-1) / 127
        close(got[3][: len(order)], scale)
        rows = torch.round(rows / scale[:, None])
        assert (got[0][: len(order)].cpu().double() - rows).abs().max() <= 1
    else:
        close(got[0][: len(order)], rows)
    counts = [flat.count(e) for e in range(first, 4)]
    same(got[2], counts if kind else [sum(counts[: i + 1]) for i in range(len(counts))])
    want = [order.index(i) if i in order else -1 for i in range(6)] if gathers == 0 else order
    same(got[1][: len(want)], want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_permuted_tokens(dtype: torch.dtype) -> None:
    x, experts = rand(3, 8, dtype=dtype), torch.tensor([[2, 0], [1, 2], [0, 3]])
    rows, places = O.npu_moe_token_permute(x.npu(), experts.npu())
    order = torch.argsort(experts.reshape(-1), stable=True)
    same(rows, x[order // 2])
    same(places, torch.argsort(order))
    probs = rand(3, 2, seed=1, dtype=dtype)
    close(
        O.npu_moe_token_unpermute(rows, places, probs.npu()),
        x.double() * probs.double().sum(-1, True),
        dtype,
    )
    same(O.npu_moe_token_unpermute(rows, places)[::2], x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [0, 1])
def test_grouped_matmul(dtype: torch.dtype, kind: int) -> None:
    x, w = rand(7, 8, dtype=dtype), rand(3, 8, 16, seed=1, dtype=dtype)
    groups = torch.tensor([2, 2, 7] if kind == 0 else [2, 0, 5])
    got = torch_npu.npu_grouped_matmul(
        [x.npu()], [w.npu()], group_list=groups.npu(), split_item=3, group_type=0,
        group_list_type=kind,
    )  # fmt: skip
    want = torch.cat([x[:2].double() @ w[0].double(), x[2:].double() @ w[2].double()])
    close(got[0], want, dtype)


def test_grouped_matmul_of_lists_and_of_small_integers() -> None:
    xs, ws = [rand(2, 8), rand(3, 4, seed=1)], [rand(8, 5, seed=2), rand(4, 6, seed=3)]
    there = [[t.half().npu() for t in ts] for ts in (xs, ws)]
    got = torch_npu.npu_grouped_matmul(*there, split_item=0, group_type=-1)
    for y, x, w in zip(got, xs, ws, strict=True):
        close(y, x.half().double() @ w.half().double(), torch.float16)
    x, w = ints(-99, 99, 7, 8), ints(-99, 99, 3, 8, 16)
    scale, each = rand(3, 16).abs().to(torch.bfloat16), rand(7, seed=4).abs()
    got = torch_npu.npu_grouped_matmul(
        [x.npu()], [w.npu()], scale=[scale.npu()], per_token_scale=[each.npu()],
        group_list=torch.tensor([2, 3, 7]).npu(), split_item=2, group_type=0, group_list_type=0,
        output_dtype=torch.bfloat16,
    )  # fmt: skip
    want = torch.cat(
        [
            x[a:b].double() @ w[g].double() * scale[g].double() * each[a:b, None].double()
            for g, (a, b) in enumerate([(0, 2), (2, 3), (3, 7)])
        ]
    )
    close(got[0], want, torch.bfloat16)


# ---- Small integers.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smooth", [False, True])
def test_dynamic_quantization(dtype: torch.dtype, smooth: bool) -> None:
    x, factors = rand(3, 40, dtype=dtype), rand(40, seed=1, dtype=dtype).abs() + 0.5
    d = x.double() * factors.double() if smooth else x.double()
    given = {"smooth_scales": factors.npu()} if smooth else {}
    y, scale = torch_npu.npu_dynamic_quant(x.npu(), **given)
    close(scale, d.abs().amax(-1) / 127)
    error = y.cpu().double() * scale.cpu().double()[:, None] - d
    assert error.abs().max() <= 0.51 * scale.max().item()
    y, scale, offset = O.npu_dynamic_quant_asymmetric(x.npu(), **given)
    high, low = d.amax(-1), d.amin(-1)
    close(scale, (high - low) / 255)
    close(offset, 127 - high / ((high - low) / 255), torch.float16)
    back = (y.cpu().double() - offset.cpu().double()[:, None]) * scale.cpu().double()[:, None]
    assert (back - d).abs().max() <= 0.6 * scale.max().item()


def test_quantization_by_given_scales() -> None:
    x, scale = rand(3, 8), rand(8, seed=1).abs() + 0.1
    zero = torch.arange(8, dtype=torch.int32)
    want = torch.clamp(torch.round(x * scale * 40 + zero), -128, 127)
    got = torch_npu.npu_quantize(x.npu(), (scale * 40).npu(), zero.npu(), torch.qint8, -1, False)
    same(got, want.int())
    got = torch_npu.npu_quantize(x.npu(), (scale / 40).npu(), zero.npu(), torch.qint8, -1, True)
    assert (got.cpu() - torch.clamp(torch.round(x / (scale / 40) + zero), -128, 127)).abs().max() == 0
    q, half = ints(-99, 99, 3, 8), scale.half()
    close(torch_npu.npu_anti_quant(q.npu(), half.npu()), q.double() * half.double(), torch.float16)
    ends = torch.tensor([1, 3], dtype=torch.int32)
    scales = torch.stack([scale, scale * 7])
    got = O.npu_group_quant(x.npu(), scales.npu(), ends.npu())
    same(got, torch.cat([torch.round(x[:1] * scales[0]), torch.round(x[1:] * scales[1])]).int())
    gamma, beta = rand(8, seed=3), rand(8, seed=4)
    step, shift = torch.tensor([20.0]), torch.tensor([3], dtype=torch.int8)
    want = torch.round((rms(x, 1e-6)[0] * gamma + beta) * 20 + 3).clamp(-128, 127)
    got = O.npu_rms_norm_quant(
        x.half().npu(), gamma.half().npu(), beta.half().npu(), step.half().npu(), shift.npu()
    )
    assert (got.cpu().double() - want).abs().max() <= 1


def test_products_of_small_integers() -> None:
    a, b = ints(-99, 99, 4, 8), ints(-99, 99, 8, 16)
    scale, each = rand(16).abs(), rand(4, seed=1).abs()
    bias = torch.arange(16, dtype=torch.int32) * 100
    exact = a.double() @ b.double()
    got = torch_npu.npu_quant_matmul(
        a.npu(), b.npu(), scale.npu(), pertoken_scale=each.npu(), bias=bias.npu(),
        output_dtype=torch.bfloat16,
    )  # fmt: skip
    close(got, (exact + bias) * scale.double() * each.double()[:, None], torch.bfloat16)
    small = scale / 1000
    got = torch_npu.npu_quant_matmul(a.npu(), b.npu(), small.npu(), output_dtype=torch.float16)
    close(got, exact * small.double(), torch.float16)
    bits = torch_npu.npu_trans_quant_param(small.npu()).cpu()
    low = (bits & 0xFFFFFFFF).to(torch.int64)
    kept = torch.frombuffer(bytearray(low.to(torch.int32).numpy().tobytes()), dtype=torch.float32)
    assert ((kept - small).abs() <= small * 2**-10).all() and (bits >> 46 == 1).all()
    x = rand(4, 8, seed=2).half()
    offset = rand(16, seed=5).half()
    got = torch_npu.npu_weight_quant_batchmatmul(x.npu(), b.npu(), scale.half().npu(), offset.npu())
    want = x.double() @ ((b.double() + offset.double()) * scale.half().double())
    torch.testing.assert_close(got.cpu().double(), want, rtol=2e-3, atol=0.5)
    got = O.npu_dequant_bias(
        exact.int().npu(), scale.npu(), each.npu(), bias.npu(), output_dtype=torch.bfloat16
    )
    close(got, (exact + bias) * scale.double() * each.double()[:, None], torch.bfloat16)


def test_gate_between_two_quantized_layers() -> None:
    x, weight, each = ints(-999, 999, 3, 16, dtype=torch.int32), rand(1, 16).abs(), rand(3).abs()
    smooth = rand(1, 8, seed=2).abs() + 0.5
    got = O.npu_dequant_swiglu_quant(
        x.npu(), weight_scale=(weight / 100).npu(), activation_scale=each.npu(),
        quant_scale=smooth.npu(), quant_mode=1, group_index=torch.tensor([3]).npu(),
        activate_left=True,
    )  # fmt: skip
    d = x.double() * weight.double() / 100 * each.double()[:, None]
    want = silu(d[:, :8]) * d[:, 8:] * smooth.double()
    close(got[1], want.abs().amax(-1) / 127)
    assert (got[0].cpu() * got[1].cpu()[:, None] - want).abs().max() <= got[1].max().item() * 0.51


def test_transposed_batches() -> None:
    a, b = rand(4, 2, 8).half(), rand(2, 8, 16, seed=1).half()
    got = torch_npu.npu_transpose_batchmatmul(
        a.npu(), b.npu(), perm_x1=[1, 0, 2], perm_y=[1, 0, 2]
    )
    close(got, torch.einsum("tbk,bkn->tbn", a.double(), b.double()), torch.float16)


# ---- Tokens.


@pytest.mark.parametrize("top_k", [None, [3, 8, 1]])
@pytest.mark.parametrize("top_p", [None, [0.5, 0.9, 1.0]])
def test_likely_tokens(top_k: list[int] | None, top_p: list[float] | None) -> None:
    x = rand(3, 8)
    k = None if top_k is None else torch.tensor(top_k, dtype=torch.int32)
    p = None if top_p is None else torch.tensor(top_p)
    if k is None and p is None:
        return
    got = O.npu_top_k_top_p(x.npu(), p if p is None else p.npu(), k if k is None else k.npu()).cpu()
    for row in range(3):
        order = sorted(range(8), key=lambda j: -x[row, j])
        kept = order[: top_k[row]] if top_k else order
        if top_p:
            probs = torch.softmax(x[row, kept].double(), 0)
            before = torch.cumsum(probs, 0) - probs
            kept = [j for j, b in zip(kept, before, strict=True) if b < top_p[row]]
        want = torch.full((8,), -math.inf)
        want[kept] = x[row, kept]
        assert got[row].tolist() == want.tolist()


def test_types() -> None:
    x = rand(3, 4)
    same(torch_npu.npu_dtype_cast(x.npu(), torch.float16), x.half())
    same(torch_npu.npu_dtype_cast(x.npu(), torch.int32), x.int())
