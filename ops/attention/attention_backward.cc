// SPDX-License-Identifier: Apache-2.0
// attention_backward: the gradients of attention.
//
//   p(i, j) = exp(s(i, j) - lse[i]), j visible; D[i] = sum_e dy[i, e] * y[i, e] - dlse[i]
//   ds(i, j) = p(i, j) * (dy[i] . v_j - D[i]); softcap > 0: * (1 - (c / softcap)^2), c the capped
//   dquery[i] = scale * sum_j ds(i, j) k_j           dkey[j] = scale * sum_i ds(i, j) q_i
//   dvalue[j] = sum_i p(i, j) dy[i]                  dsinks[h] = -sum_i exp(sinks[h] - lse[i]) D[i]
//
// Sums over i are over the queries that see key j, of all heads that read its head. Scores s and
// what is visible are those of attention.
//
//   y, lse  what attention gave; an empty lse is computed again
//   dlse    the gradient of lse; absent or empty: 0
//
// Numerics  p, ds and all sums in f32, one rounding on the store. Sums are added in rising order in
//           blocks that depend on the sizes only, so they do not depend on threads. A row with lse
//           -inf saw no key: it adds nothing. Hidden pairs have no influence, NaN included. Tokens
//           beyond the last sequence: 0. Slopes have no gradient.
// Source    Dao et al. 2022, arXiv:2205.14135, and 2023, arXiv:2307.08691.

#include "ops/attention/backward_kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(attention_backward){.workspace = kWorkspace<&BackwardBytes>,
                                 .run = Bind<&RunBackward>()};

extern constinit const Op attention_backward{
    .signature =
        "attention_backward(dy: T[tq, hq, dv], query: T[tq, hq, dk], key: T[tk, hkv, dk], "
        "value: T[tk, hkv, dv], y: T[tq, hq, dv], lse: f32[hq, l], "
        "query_start_loc: I[b+1] offsets tq, key_start_loc: I[b+1] offsets tk, scale: float?, "
        "causal: bool, window_left: int, window_right: int, softcap: float, "
        "alibi_slopes: f32[hq]?, sinks: f32[hq]?, dlse: f32[hq, l]?) -> (dquery: T[tq, hq, dk]?, "
        "dkey: T[tk, hkv, dk]?, dvalue: T[tk, hkv, dv]?, dsinks: f32[hq]?) "
        "where T in f32 | f16 | bf16, I in i32 | i64, hkv >= 1, hq % hkv == 0, dk >= 1, "
        "l == 0 or l == tq, softcap >= 0",
    .flops = "5 * (dk + dv) * hq * tq * ceil_div(tk, max(b, 1))",
};

}  // namespace anyop::ops
