// SPDX-License-Identifier: Apache-2.0
// paged_attention: attention of new tokens over a paged cache of keys and values.
//
//   s(j) = scale * (q . k_j); softcap > 0: softcap * tanh(s / softcap); + slope[h] * (j - P)
//   y = sum_j exp(s(j)) v_j / Z, lse = ln Z, Z = sum_j exp(s(j)) [+ exp(sinks[h])], j visible
//
// Sequence i has seq_lens[i] keys, those of this call included: they are in the cache already. Its
// query n of lq stands at key position P = n + seq_lens[i] - lq. Key j is visible if j <= P when
// causal, j >= P - window_left and j <= P + window_right where these are not negative. Query head h
// reads key head h / (hq / hkv). Key j lies in block block_table[i, j / bs] at offset j % bs.
//
//   block_table       an entry of -1 hides its keys; only entries that hold visible keys are used
//   seq_lens          at most 0: no key
//   query_start_loc   where each sequence's queries begin; absent: one query for each sequence
//   scale             absent: 1 / sqrt(dk)
//   sinks             one more score for each head, with no value
//   k_scale, v_scale  one per key head for i8 and f8e4m3: k = q * k_scale; absent: 1. Caches of
//                     other dtypes are read as they are, whatever the scales
//   return_lse        whether lse is computed; it is empty otherwise
//
// Numerics  Scores, weights and sums in f32, one rounding on the store to y. Where bf16 dot
//           instructions or tiles multiply values, a weight is the sum of two bf16, within 2^-16 of
//           itself, so that no result depends on a machine by more. Sums are relative to the
//           largest score, sinks included. No visible key: y is 0, lse is -inf or the sink. Hidden
//           keys have no influence, NaN included. Tokens beyond the last sequence: y is 0, lse is
//           -inf. The bits do not depend on the number of threads, nor on other sequences; in
//           batch-invariant mode not on other queries of the sequence either.
// Source    Kwon et al. 2023, arXiv:2309.06180; vLLM 0.27.1.

#include <string>

#include "ops/paged_attention/check.h"
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(paged_attention){.workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

extern constinit const Op paged_attention{
    .signature =
        "paged_attention(query: T[t, hq, dk], key_cache: C[nb, bs, hkv, dk], "
        "value_cache: C[nb, bs, hkv, dv], block_table: B[b, mb], seq_lens: I[b], "
        "query_start_loc: I[b+1]? offsets t, scale: float?, causal: bool = True, "
        "window_left: int = -1, window_right: int = -1, softcap: float = 0.0, "
        "alibi_slopes: f32[hq]?, sinks: f32[hq]?, k_scale: f32[hkv]?, v_scale: f32[hkv]?, "
        "return_lse: bool = False) -> (y: T[t, hq, dv], lse: f32[hq, t*return_lse]) "
        "where T in f32 | f16 | bf16, C in f32 | f16 | bf16 | i8 | f8e4m3, B in i32 | i64, "
        "I in i32 | i64, hkv >= 1, hq % hkv == 0, bs >= 1, dk >= 1, "
        "softcap >= 0, "
        "given(query_start_loc) or t == b, C == T or C in i8 | f8e4m3",
    .flops = "2 * (dk + dv) * hq * b * mb * bs",
    .bytes = "bytes(query) + bytes(y) + bytes(C) * (dk + dv) * hkv * b * mb * bs",
    .check = Bind<&CheckTable>(),
};

}  // namespace anyop::ops
