// SPDX-License-Identifier: Apache-2.0
// moe_unpermute: the rows of experts back at their tokens, weighted and added up.
//
//   y[i] = sum_a weights[i, a] * x_sorted[destination[i, a]]
//
//   destination  the row of choice a of token i, as moe_permute gave it; -1 adds nothing
//   weights      of the router; absent: 1
//
// Numerics  Sums in f32 by rising a, one rounding.
// Source    vLLM 0.27.1, moe_unpermute.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op moe_unpermute{
    .signature =
        "moe_unpermute(x_sorted: T[m, d], destination: i32[t, k] below m, weights: f32[t, k]?) -> "
        "(y: T[t, d]) where T in f32 | f16 | bf16",
    .gradient = "moe_unpermute_backward",
    .flops = "2 * t * k * d",
    .bytes = "(k + 1) * t * d * bytes(T) + bytes(destination) + bytes(weights)",
};

}  // namespace anyop::ops
