# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts and small integers of torch_npu, against plain formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu
from plain import DTYPES, close, ints, rand, rms, same, silu

O = torch.ops.npu  # noqa: E741

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
    same(got, torch.clamp(torch.round(x / (scale / 40) + zero), -128, 127).int())
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
    got = torch_npu.npu_transpose_batchmatmul(a.npu(), b.npu(), perm_x1=[1, 0, 2], perm_y=[1, 0, 2])
    close(got, torch.einsum("tbk,bkn->tbn", a.double(), b.double()), torch.float16)
