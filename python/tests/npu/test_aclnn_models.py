# SPDX-License-Identifier: Apache-2.0
"""Norms, gates, rotations and caches of torch_npu, against plain formulas."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from plain import DTYPES, close, gelu_tanh, layer, rand, rms, same, silu, turned

O = torch.ops.npu  # noqa: E741

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
    normal = torch.nn.functional.group_norm(x.double(), 2, gamma.double(), beta.double(), 1e-5)
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
    x, c, s = (rand(2, n, 1, 64, seed=n, dtype=dtype) for n in (3, 1, 1))
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
        got = O.npu_mrope(axes.npu(), q.npu(), k.npu(), table.npu(), 8, mrope_section=[2, 1, 1])
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
