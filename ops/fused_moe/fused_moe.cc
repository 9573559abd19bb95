// SPDX-License-Identifier: Apache-2.0
// fused_moe: the feed-forward layer of a mixture of experts, from tokens to tokens.
//
//   z = w13[g] x'[i] + b13[g]     q = act(z)     o = w2[g] q + b2[g]     g = ids[i, a] >= 0
//   y[i] = sum_a weights[i, a] * o
//
//   weights, ids  of the router: what each choice counts, and its expert; -1 adds nothing, an
//                 expert that is chosen twice counts twice
//   b13, b2       added to the f32 sums
//   activation    act(z) = silu(gate) * up, gelu (exact) or gelu_tanh, or swiglu with limit, alpha
//                 and beta, which the others do not look at
//   order         where gate and up stand in w13: 'halves' or 'interleaved'
//   apply_router_weight_on_input
//                 x'[i] = round(weights[i, a] * x[i]), and the weight in the sum is 1; else x' = x
//
// The weights of an expert are read once for all of its tokens (of some 4096 pairs), those of
// others not at all.
//
// Numerics  z and o in f32 for every T; q is rounded to T; the sum over a rises in f32 and is
//           rounded once. A row has the same bits alone and in a batch in batch-invariant mode. A
//           row without experts is 0.
// Source    composition of moe_permute, grouped_linear, silu_and_mul and moe_unpermute without
//           their roundings; vLLM 0.27.1, cpu_fused_moe.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op fused_moe{
    .signature =
        "fused_moe(x: T[t, d], w13: T[e, 2*f, d], w2: T[e, d, f], weights: f32[t, k], "
        "ids: I[t, k] below e, b13: T[e, 2*f]?, b2: T[e, d]?, "
        "activation: 'silu' | 'gelu' | 'gelu_tanh' | 'swiglu' = 'silu', limit: float?, "
        "alpha: float = 1.0, beta: float = 0.0, order: 'halves' | 'interleaved' = 'halves', "
        "apply_router_weight_on_input: bool = False) -> (y: T[t, d]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, limit > 0",
    .flops = "6 * t * k * d * f",
    .bytes = "bytes(x) + bytes(y) + min(t * k, e) * 3 * d * f * bytes(T)",
    .prepack =
        "packed13 = pack_weight(w13); packed2 = pack_weight(w2); "
        "y = fused_moe_packed(x, packed13, packed2, f, weights, ids, b13, b2, activation, limit, "
        "alpha, beta, order, apply_router_weight_on_input)",
};

}  // namespace anyop::ops
