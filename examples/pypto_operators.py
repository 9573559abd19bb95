# SPDX-License-Identifier: Apache-2.0
"""Operators under the schemas of another package, as calls of anyop's: programs that call
torch.ops.custom_pypto.npu_lightning_indexer_pto and npu_sparse_attention_pto (DeepSeek-V3.2's
attention on Ascend) run unchanged on the CPU, or on the virtual NPU after
anyop.ascend.start_torch(). Schemas, Meta functions and the calls are all that there is here.
"""

from __future__ import annotations

import anyop.torch  # noqa: F401  # registers its operators
import torch

library = torch.library.Library("custom_pypto", "FRAGMENT")
library.define(
    "npu_lightning_indexer_pto(Tensor query, Tensor key, Tensor weights, *, "
    "Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, "
    "Tensor? block_table=None, str layout_query='BSND', str layout_key='PA_BSND', "
    "int sparse_count=2048, int sparse_mode=3) -> Tensor"
)
library.define(
    "npu_sparse_attention_pto(Tensor x, Tensor w_dq, Tensor w_uq_qr, Tensor w_uk, "
    "Tensor w_dkv_kr, Tensor gamma_cq, Tensor gamma_ckv, Tensor sin, Tensor cos, "
    "Tensor cache_index, Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor block_table, "
    "Tensor act_seqs, Tensor w_idx_qb, Tensor w_idx_k, Tensor w_idx_proj, Tensor in_gamma_k, "
    "Tensor in_beta_k, Tensor(c!) index_k_cache) -> Tensor"
)
TOP = 2048  # keys that a token attends to


def starts(lengths: torch.Tensor) -> torch.Tensor:
    """0, and the sums of lengths up to each one."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def lightning_indexer(
    query: torch.Tensor,
    key: torch.Tensor,
    weights: torch.Tensor,
    *,
    actual_seq_lengths_query: torch.Tensor | None = None,
    actual_seq_lengths_key: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "PA_BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
) -> torch.Tensor:
    """query: [b, s, h, d] (BSND) or [t, h, d] (TND), where actual_seq_lengths_query are the ends of
    the sequences. key: the cache, [blocks, block, 1, d]. Positions: i32 [b, s, 1, sparse_count] or
    [t, 1, sparse_count], rising, then -1. sparse_mode: 3 is causal, 0 is not.
    """
    if layout_key != "PA_BSND" or block_table is None or actual_seq_lengths_key is None:
        raise ValueError(
            "npu_lightning_indexer_pto: layout_key must be 'PA_BSND', with block_table and "
            "actual_seq_lengths_key: other layouts of keys are not supported here."
        )
    heads, d = query.shape[-2:]
    if layout_query == "TND":
        if actual_seq_lengths_query is None:
            raise ValueError(
                "npu_lightning_indexer_pto: layout_query 'TND' needs actual_seq_lengths_query."
            )
        begins = torch.nn.functional.pad(actual_seq_lengths_query.long(), (1, 0))
    else:
        begins = torch.arange(query.shape[0] + 1, device=query.device) * query.shape[1]
    indices, _ = torch.ops.anyop.lightning_indexer(
        query.reshape(-1, heads, d),
        weights.reshape(-1, heads),
        key.squeeze(2),
        block_table,
        actual_seq_lengths_key.long(),
        begins,
        sparse_count,
        sparse_mode == 3,
    )
    return indices.view(*query.shape[:-2], 1, sparse_count)


def lightning_indexer_shape(
    query: torch.Tensor, key: torch.Tensor, weights: torch.Tensor, **given: object
) -> torch.Tensor:
    shape = (*query.shape[:-2], 1, given.get("sparse_count", 2048))
    return query.new_empty(shape, dtype=torch.int32)


def sparse_attention(*given: torch.Tensor) -> torch.Tensor:
    """x: [b, s, dm], of s new tokens in each sequence; weights are [in, out]; sin and cos:
    [b, s, r], both halves alike; cache_index: the slot of each token; act_seqs: lengths with the
    new tokens. Result: [b, s, h, c].
    """
    (
        x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_cq, gamma_ckv, sin, cos, cache_index, kv_cache,
        kr_cache, block_table, act_seqs, w_idx_qb, w_idx_k, w_idx_proj, in_gamma_k, in_beta_k,
        index_k_cache,
    ) = given  # in the order of the schema
    b, s, _ = x.shape
    h, dn, c = w_uk.shape
    r = cos.shape[-1]
    halves = (cos.reshape(b * s, r)[:, : r // 2], sin.reshape(b * s, r)[:, : r // 2])
    y = torch.ops.anyop.sparse_mla_decode_step(
        x.flatten(0, 1),
        torch.arange(b * s, device=x.device),
        cache_index.reshape(-1),
        block_table,
        act_seqs.long(),
        torch.arange(b + 1, device=x.device) * s,
        torch.cat(halves, 1),
        w_dq.T.contiguous(),
        gamma_cq,
        w_uq_qr.T.contiguous(),
        w_dkv_kr.T.contiguous(),
        gamma_ckv,
        w_uk,
        w_idx_qb.T.contiguous(),
        w_idx_k.T.contiguous(),
        in_gamma_k,
        in_beta_k,
        w_idx_proj.T.contiguous(),
        kv_cache.squeeze(2),
        kr_cache.squeeze(2),
        index_k_cache.squeeze(2),
        min(TOP, block_table.shape[1] * kv_cache.shape[1]),
        (dn + r) ** -0.5,
    )
    return y.view(b, s, h, c)


def sparse_attention_shape(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    return x.new_empty(*x.shape[:2], weights[2].shape[0], weights[2].shape[2])


for key in ("CPU", "PrivateUse1"):
    library.impl("npu_lightning_indexer_pto", lightning_indexer, key)
    library.impl("npu_sparse_attention_pto", sparse_attention, key)
torch.library.register_fake("custom_pypto::npu_lightning_indexer_pto", lightning_indexer_shape)
torch.library.register_fake("custom_pypto::npu_sparse_attention_pto", sparse_attention_shape)
