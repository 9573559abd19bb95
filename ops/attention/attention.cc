// SPDX-License-Identifier: Apache-2.0
// attention: softmax attention of sequences packed end to end.
//
//   s(j) = scale * (q . k_j); softcap > 0: softcap * tanh(s / softcap); + slope[h] * (j - P)
//   y = sum_j exp(s(j)) v_j / Z, lse = ln Z, Z = sum_j exp(s(j)) [+ exp(sinks[h])], j visible
//
// Sequence i has the queries query_start_loc[i] ... query_start_loc[i + 1] - 1 and keys likewise.
// Its query n of lq stands at key position P = n + lk - lq: the last query sees the last key. Key j
// is visible if j <= P when causal, j >= P - window_left and j <= P + window_right where these are
// not negative. Query head h reads key head h / (hq / hkv).
//
//   scale       absent: 1 / sqrt(dk)
//   sinks       one more score for each head, with no value
//   return_lse  whether lse is computed; it is empty otherwise
//
// Numerics  Scores, weights and sums in f32, one rounding on the store to y. Where bf16 dot
//           instructions or tiles multiply values, a weight is the sum of two bf16, within 2^-16 of
//           itself, so that no result depends on a machine by more. Sums are relative to the
//           largest score, sinks included. No visible key: y is 0, lse is -inf or the sink. Hidden
//           keys have no influence, NaN included. Tokens beyond the last sequence: y is 0, lse is
//           -inf. The bits do not depend on the number of threads, nor on other sequences; in
//           batch-invariant mode not on other queries of the sequence either.
// Source    Dao et al. 2022, arXiv:2205.14135, and 2023, arXiv:2307.08691; sinks: Xiao et al. 2023,
//           arXiv:2309.17453; slopes: Press et al. 2021, arXiv:2108.12409.

#include "ops/attention/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(attention){.workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

extern constinit const Op attention{
    .signature =
        "attention(query: T[tq, hq, dk], key: T[tk, hkv, dk], value: T[tk, hkv, dv], "
        "query_start_loc: I[b+1] offsets tq, key_start_loc: I[b+1] offsets tk, scale: float?, "
        "causal: bool = True, window_left: int = -1, window_right: int = -1, "
        "softcap: float = 0.0, alibi_slopes: f32[hq]?, sinks: f32[hq]?, "
        "return_lse: bool = False) -> (y: T[tq, hq, dv], lse: f32[hq, tq*return_lse]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, hkv >= 1, hq % hkv == 0, dk >= 1, "
        "softcap >= 0",
    .gradient = "attention_backward",
    .flops = "2 * (dk + dv) * hq * tq * ceil_div(tk, max(b, 1))",
};

}  // namespace anyop::ops
