# SPDX-License-Identifier: Apache-2.0
"""Attention of torch_npu, and its choice of tokens, against plain formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_npu
from plain import close, rand, same

O = torch.ops.npu  # noqa: E741

# ---- Attention.


def band(n: int, m: int, first: int, before: int, behind: int) -> torch.Tensor:
    """What is hidden of a key j from row i: all but first + i - before to first + i + behind."""
    return torch.tensor(
        [[not -before <= j - i - first <= behind for j in range(m)] for i in range(n)]
    )


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
    lse = torch.logsumexp(s, -1, True).clamp_min(-1e30)  # of a row without keys
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
    if sparse in (0, 4):
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


TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
# sparse_mode, pre_tockens, next_tockens, and what they hide of m keys from n rows.
MODES = {
    "0": (0, 2, 1, lambda n, m: band(n, m, 0, 2, 1)),
    "0 behind": (0, 4, -2, lambda n, m: band(n, m, 0, 4, -2)),
    "1": (1, 0, 0, lambda n, m: band(n, m, 0, 1, 2)),
    "2": (2, 0, 0, lambda n, m: band(n, m, 0, n + m, 0)),
    "3": (3, 0, 0, lambda n, m: band(n, m, m - n, n + m, 0)),
    "4": (4, 2, 1, lambda n, m: band(n, m, m - n, 2, 1)),
    "4 behind": (4, 4, -1, lambda n, m: band(n, m, m - n, 4, -1)),
    "4 before": (4, -1, 3, lambda n, m: band(n, m, m - n, -1, 3)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keys", [4, 5, 7])
def test_sparse_modes_of_training(mode: str, keys: int) -> None:
    sparse, before, behind, hides = MODES[mode]
    there = [t.npu().requires_grad_() for t in batch(2, key_seq=keys)]
    here = [t.detach().cpu().double().requires_grad_() for t in there]
    hidden = hides(5, keys)
    y = torch_npu.npu_fusion_attention(
        *there, 4, "BNSD", scale=0.3, sparse_mode=sparse, pre_tockens=before, next_tockens=behind,
        atten_mask=(hidden if sparse < 2 else TRIANGLE).npu(),
    )[0]  # fmt: skip
    want = torch.stack([attention(*(t[i] for t in here), 0.3, hidden)[0] for i in range(2)])
    close(y, want, torch.float16)
    grad = rand(*y.shape, seed=9, dtype=torch.float16)
    y.backward(grad.npu())
    want.backward(grad.double())
    for got, expected in zip(there, here, strict=True):
        close(got.grad, expected.grad, torch.float16)


@pytest.mark.parametrize("mode", MODES)
def test_sparse_modes_of_packed_sequences(mode: str) -> None:
    sparse, before, behind, hides = MODES[mode]
    sizes = [(7, 4, 8), (9, 2, 8), (9, 2, 8)]
    parts = [rand(*size, seed=i, dtype=torch.float16) for i, size in enumerate(sizes)]
    there = [t.npu().requires_grad_() for t in parts]
    here = [t.double().requires_grad_() for t in parts]
    whole = hides(5, 6)
    if sparse == 1:  # one mask for all, whose rows and keys each sequence takes from the first on
        hides = lambda n, m: whole[:n, :m]  # noqa: E731
    y = torch_npu.npu_fusion_attention(
        *there, 4, "TND", scale=0.3, actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 9],
        sparse_mode=sparse, pre_tockens=before, next_tockens=behind,
        atten_mask=(whole if sparse < 2 else TRIANGLE).npu(),
    )[0]  # fmt: skip
    found = []
    for (a, b), (c, d) in zip(((0, 2), (2, 7)), ((0, 3), (3, 9)), strict=True):
        part = [here[0][a:b], here[1][c:d], here[2][c:d]]
        laid = [t.transpose(0, 1) for t in part]
        found.append(attention(*laid, 0.3, hides(b - a, d - c))[0].transpose(0, 1))
    want = torch.cat(found)
    close(y, want, torch.float16)
    y.backward(torch.ones_like(y))
    want.sum().backward()
    for got, expected in zip(there, here, strict=True):
        close(got.grad, expected.grad, torch.float16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_sparse_modes_of_inference(mode: str, layout: str) -> None:
    sparse, before, behind, hides = MODES[mode]
    q, k, v = batch(2, key_seq=7)
    hidden = hides(5, 7)
    common = {
        "sparse_mode": sparse, "pre_tokens": before, "next_tokens": behind, "scale": 0.3,
        "atten_mask": (hidden if sparse < 2 else TRIANGLE).npu(), "num_heads": 4,
        "num_key_value_heads": 2, "input_layout": layout,
    }  # fmt: skip
    want = torch.stack([attention(q[i], k[i], v[i], 0.3, hidden)[0] for i in range(2)])
    there = [t.npu() for t in (q, k, v)]
    if layout == "TND":
        there = [t.transpose(1, 2).flatten(0, 1).contiguous() for t in there]
        common |= {"actual_seq_lengths": [5, 10], "actual_seq_lengths_kv": [7, 14]}
        want = want.transpose(1, 2).flatten(0, 1)
    close(torch_npu.npu_fused_infer_attention_score(*there, **common)[0], want, torch.float16)
    if layout == "BNSD":
        common["scale_value"] = common.pop("scale")
        close(torch_npu.npu_prompt_flash_attention(*there, **common), want, torch.float16)


def test_masks_of_each_head_and_of_each_row() -> None:
    q, k, v = batch()
    mask = rand(2, 4, 5, 5, seed=7) > 0.5
    y = torch_npu.npu_fusion_attention(
        *(t.npu() for t in (q, k, v)), 4, "BNSD", scale=0.3, atten_mask=mask.npu()
    )[0]
    s = (q.double() @ k.double().transpose(2, 3) * 0.3).masked_fill(mask, -math.inf)
    close(y, torch.nan_to_num(torch.softmax(s, -1)) @ v.double(), torch.float16)
    rows = rand(2, 5, seed=8) > 0.5
    there = [t.npu() for t in (q[:, :, :1].contiguous(), k, v)]
    y = torch_npu.npu_fused_infer_attention_score(
        *there, num_heads=4, scale=0.3, input_layout="BNSD", atten_mask=rows.npu()
    )[0]
    want = [attention(q[i, :, :1], k[i], v[i], 0.3, rows[i])[0] for i in range(2)]
    close(y, torch.stack(want), torch.float16)


@pytest.mark.parametrize(
    ("sparse", "mask", "told"),
    [
        (2, None, "atten_mask is absent, but must be given with a sparse_mode of 2"),
        (3, torch.ones(5, 5).triu(1), r"atten_mask is of \[5, 5\], but must be of 2048 x 2048"),
        (4, torch.zeros(2048, 2048), "atten_mask must be true above its diagonal"),
        (5, torch.ones(5, 5), "sparse_mode is 5, but must be 0 to 4"),
        (1, torch.ones(4, 5), r"atten_mask is of \[4, 5\], but must have 5 rows of 5 elements"),
    ],
)
def test_masks_that_are_refused(sparse: int, mask: torch.Tensor | None, told: str) -> None:
    there = [t.npu() for t in batch()]
    given = mask if mask is None else mask.bool().npu()
    with pytest.raises(RuntimeError, match=told):
        torch_npu.npu_fusion_attention(
            *there, 4, "BNSD", sparse_mode=sparse, atten_mask=given, prefix=[1, 1]
        )
        torch.npu.synchronize()
    with pytest.raises(RuntimeError, match=told):
        torch_npu.npu_fused_infer_attention_score(
            *there, num_heads=4, input_layout="BNSD", sparse_mode=sparse, atten_mask=given
        )
        torch.npu.synchronize()


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
