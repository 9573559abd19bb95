# SPDX-License-Identifier: Apache-2.0
"""examples/pypto_operators.py against plain torch in double."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from examples import pypto_operators  # noqa: E402, F401

OPS = torch.ops.custom_pypto
B, S, BS, BLOCKS = 2, 3, 4, 12
LENGTHS = [9, 14]


def table() -> torch.Tensor:
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(5))
    return order[: B * 4].view(B, 4).to(torch.int32)


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cached(cache: torch.Tensor, sequence: int) -> torch.Tensor:
    """What a sequence has in a cache [blocks, block, 1, d], in its order."""
    return cache.squeeze(2)[table()[sequence].long()].flatten(0, 1)[: LENGTHS[sequence]]


def best(query: torch.Tensor, weights: torch.Tensor, keys: torch.Tensor, top: int) -> list[int]:
    score = (weights.double() @ (query.double() @ keys.double().T).clamp_min(0)).tolist()
    return sorted(sorted(range(len(score)), key=lambda j: (-score[j], j))[:top])


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_indexer_chooses_the_best_keys(layout: str, causal: bool) -> None:
    h, d, top = 4, 16, 5
    query, weights = drawn(B, S, h, d, seed=1), drawn(B, S, h, seed=2)
    cache = drawn(BLOCKS, BS, 1, d, seed=3)
    given = {"actual_seq_lengths_key": torch.tensor(LENGTHS, dtype=torch.int32)}
    shaped = query, weights
    if layout == "TND":
        shaped = query.flatten(0, 1), weights.flatten(0, 1)
        given["actual_seq_lengths_query"] = torch.tensor([S, 2 * S], dtype=torch.int32)
    y = OPS.npu_lightning_indexer_pto(
        shaped[0], cache, shaped[1], block_table=table(), layout_query=layout, sparse_count=top,
        sparse_mode=3 if causal else 0, **given,
    )  # fmt: skip
    assert y.shape == ((B, S, 1, top) if layout == "BSND" else (B * S, 1, top))
    for i, row in enumerate(y.reshape(-1, top).tolist()):
        n, k = divmod(i, S)
        seen = LENGTHS[n] - (S - 1 - k if causal else 0)
        assert row == best(query[n, k], weights[n, k], cached(cache, n)[:seen], top)


def rms(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairs: bool) -> torch.Tensor:
    """The first r elements rotated, of neighbours (pairs) or of halves."""
    r = cos.shape[-1]
    c, s = cos[..., : r // 2].double(), sin[..., : r // 2].double()
    head = x[..., :r]
    a, b = (head[..., ::2], head[..., 1::2]) if pairs else head.chunk(2, -1)
    turn = a * c - b * s, b * c + a * s
    out = torch.stack(turn, -1).flatten(-2) if pairs else torch.cat(turn, -1)
    return torch.cat((out, x[..., r:]), -1)


def test_sparse_attention_is_the_steps_that_it_is_made_of() -> None:
    dm, ql, h, dn, c, r, hi, di = 24, 12, 3, 8, 16, 4, 2, 8
    weights = {
        "w_dq": (dm, ql), "w_uq_qr": (ql, h * (dn + r)), "w_uk": (h, dn, c),
        "w_dkv_kr": (dm, c + r), "gamma_cq": (ql,), "gamma_ckv": (c,),
    }  # fmt: skip
    index = {
        "w_idx_qb": (ql, hi * di), "w_idx_k": (dm, di), "w_idx_proj": (dm, hi),
        "in_gamma_k": (di,), "in_beta_k": (di,),
    }  # fmt: skip
    w = {n: drawn(*s, seed=i) / s[0] ** 0.5 for i, (n, s) in enumerate((weights | index).items())}
    x, angle = drawn(B, S, dm, seed=20), drawn(B, S, r // 2, seed=21)
    cos, sin = (torch.cat((f(angle),) * 2, -1) for f in (torch.cos, torch.sin))
    caches = [drawn(BLOCKS, BS, 1, n, seed=30 + n) for n in (c, r, di)]
    slots = torch.tensor(
        [[int(table()[n, p // BS]) * BS + p % BS for p in range(LENGTHS[n] - S, LENGTHS[n])]
         for n in range(B)]
    )  # fmt: skip
    y = OPS.npu_sparse_attention_pto(
        x, *(w[n] for n in weights), sin, cos, slots, caches[0], caches[1], table(),
        torch.tensor(LENGTHS), *(w[n] for n in index), caches[2],
    )  # fmt: skip
    assert y.shape == (B, S, h, c)

    t, v = {n: m.double() for n, m in w.items()}, x.double()
    latent = rms(v @ t["w_dq"], t["gamma_cq"])
    q = (latent @ t["w_uq_qr"]).view(B, S, h, dn + r)
    qn = torch.einsum("bshn,hnc->bshc", q[..., :dn], t["w_uk"])
    qp = turned(q[..., dn:], cos[:, :, None], sin[:, :, None], pairs=True)
    kv = v @ t["w_dkv_kr"]
    new = [rms(kv[..., :c], t["gamma_ckv"]), turned(kv[..., c:], cos, sin, pairs=True)]
    ik = torch.nn.functional.layer_norm(
        v @ t["w_idx_k"], (di,), t["in_gamma_k"], t["in_beta_k"], 1e-6
    )
    new.append(turned(ik, cos, sin, pairs=False))
    for cache, rows in zip(caches, new, strict=True):
        there = cache.squeeze(2).flatten(0, 1)[slots]
        torch.testing.assert_close(there.double(), rows, rtol=1e-4, atol=1e-4)
    # All keys are taken, as there are fewer than 2,048.
    for n in range(B):
        latents, rope = (cached(cache, n).double() for cache in caches[:2])
        for k in range(S):
            seen = LENGTHS[n] - (S - 1 - k)
            score = qn[n, k] @ latents[:seen].T + qp[n, k] @ rope[:seen].T
            want = (score * (dn + r) ** -0.5).softmax(-1) @ latents[:seen]
            torch.testing.assert_close(y[n, k].double(), want, rtol=1e-3, atol=1e-3)


def test_fakes_have_the_shapes() -> None:
    with torch.device("meta"):
        query, key = torch.empty(2, 3, 4, 16), torch.empty(9, 4, 1, 16)
        y = OPS.npu_lightning_indexer_pto(query, key, torch.empty(2, 3, 4), sparse_count=7)
    assert y.shape == (2, 3, 1, 7) and y.dtype == torch.int32


def test_what_is_missing_is_said() -> None:
    query, key = torch.zeros(6, 4, 16), torch.zeros(9, 4, 1, 16)
    with pytest.raises(ValueError, match="with block_table and actual_seq_lengths_key"):
        OPS.npu_lightning_indexer_pto(query, key, torch.zeros(6, 4), layout_query="TND")
