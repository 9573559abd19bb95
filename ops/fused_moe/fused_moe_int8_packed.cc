// SPDX-License-Identifier: Apache-2.0
// fused_moe_int8_packed: fused_moe_int8 with weights that pack_weight_int8 made.
//
//   z = w13[g] x'[i] + b13[g]     q = act(z)     o = w2[g] q + b2[g]     g = ids[i, a] >= 0
//   y[i] = sum_a weights[i, a] * o
//
//   w13, w2       [e][rows/32][columns/4][32][4], as grouped_linear_int8_packed has them
//   w13_scale, w2_scale
//                 of each row of the weights
//   features      the width f of an expert
//   weights, ids  of the router: what each choice counts, and its expert; -1 adds nothing, an
//                 expert that is chosen twice counts twice
//   b13, b2       added to the f32 sums
//   activation    act(z) = silu(gate) * up, gelu (exact) or gelu_tanh, or swiglu with limit, alpha
//                 and beta, which the others do not look at
//   order         where gate and up stand in w13: 'halves' or 'interleaved'
//   apply_router_weight_on_input
//                 x'[i] = round(weights[i, a] * x[i]), and the weight in the sum is 1; else x' = x
//
// Numerics  As fused_moe_int8, bit for bit.
// Source    as fused_moe.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op fused_moe_int8_packed{
    .signature =
        "fused_moe_int8_packed(x: T[t, d], w13: dense i8[e, n13, d4, 32, 4], "
        "w13_scale: f32[e, 2*features], w2: dense i8[e, n2, f4, 32, 4], w2_scale: f32[e, d], "
        "features: int, weights: f32[t, k], ids: I[t, k] below e, b13: T[e, 2*features]?, "
        "b2: T[e, d]?, "
        "activation: 'silu' | 'gelu' | 'gelu_tanh' | 'swiglu' = 'silu', limit: float?, "
        "alpha: float = 1.0, beta: float = 0.0, order: 'halves' | 'interleaved' = 'halves', "
        "apply_router_weight_on_input: bool = False) -> (y: T[t, d]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, d <= 131071, features <= 131071, "
        "n13 == ceil_div(2*features, 32), d4 == ceil_div(d, 4), n2 == ceil_div(d, 32), "
        "f4 == ceil_div(features, 4), limit > 0",
    .flops = "6 * t * k * d * features",
    .bytes = "bytes(x) + bytes(y) + min(t * k, e) * 3 * d * features",
};

}  // namespace anyop::ops
