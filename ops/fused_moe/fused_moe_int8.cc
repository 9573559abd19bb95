// SPDX-License-Identifier: Apache-2.0
// fused_moe_int8: the feed-forward layer of a mixture of experts whose weights are bytes.
//
//   z = w13[g] x'[i] + b13[g]     q = act(z)     o = w2[g] q + b2[g]     g = ids[i, a] >= 0
//   y[i] = sum_a weights[i, a] * o
//
//   w13_scale, w2_scale
//                 of each row of the weights
//   weights, ids  of the router: what each choice counts, and its expert; -1 adds nothing, an
//                 expert that is chosen twice counts twice
//   b13, b2       added to the f32 sums
//   activation    act(z) = silu(gate) * up, gelu (exact) or gelu_tanh, or swiglu with limit, alpha
//                 and beta, which the others do not look at
//   order         where gate and up stand in w13: 'halves' or 'interleaved'
//   apply_router_weight_on_input
//                 x'[i] = round(weights[i, a] * x[i]), and the weight in the sum is 1; else x' = x
//
// Numerics  Rows of x' and of q (before any rounding to T) are quantized as quantize_int8_dynamic
//           does; products are exact, then scaled as in linear_int8. The rest as fused_moe. A row
//           always has the same bits alone and in a batch.
// Source    as fused_moe.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op fused_moe_int8{
    .signature =
        "fused_moe_int8(x: T[t, d], w13: i8[e, 2*f, d], w13_scale: f32[e, 2*f], w2: i8[e, d, f], "
        "w2_scale: f32[e, d], weights: f32[t, k], ids: I[t, k] below e, b13: T[e, 2*f]?, "
        "b2: T[e, d]?, "
        "activation: 'silu' | 'gelu' | 'gelu_tanh' | 'swiglu' = 'silu', limit: float?, "
        "alpha: float = 1.0, beta: float = 0.0, order: 'halves' | 'interleaved' = 'halves', "
        "apply_router_weight_on_input: bool = False) -> (y: T[t, d]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, d <= 131071, f <= 131071, limit > 0",
    .flops = "6 * t * k * d * f",
    .bytes = "bytes(x) + bytes(y) + min(t * k, e) * 3 * d * f",
    .prepack =
        "packed13 = pack_weight_int8(w13); packed2 = pack_weight_int8(w2); "
        "y = fused_moe_int8_packed(x, packed13, w13_scale, packed2, w2_scale, f, weights, ids, "
        "b13, b2, activation, limit, alpha, beta, order, apply_router_weight_on_input)",
};

}  // namespace anyop::ops
