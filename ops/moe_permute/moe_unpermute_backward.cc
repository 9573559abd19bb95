// SPDX-License-Identifier: Apache-2.0
// moe_unpermute_backward: the gradient of moe_unpermute.
//
//   dx_sorted[destination[i, a]] = weights[i, a] * dy[i]; rows that no pair has are 0
//   dweights[i, a] = sum_j dy[i, j] * x_sorted[destination[i, a], j]
//
//   destination  -1: dweights is 0 there; of a row that several pairs share, dx_sorted is the sum
//   weights      absent: 1
//
// Numerics  Sums in f32, one rounding.
// Source    the definition of moe_unpermute.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op moe_unpermute_backward{
    .signature =
        "moe_unpermute_backward(dy: T[t, d], x_sorted: T[m, d], destination: i32[t, k] below m, "
        "weights: f32[t, k]?) -> (dx_sorted: T[m, d]?, dweights: f32[t, k]?) "
        "where T in f32 | f16 | bf16",
    .flops = "4 * t * k * d",
    .bytes = "(m + t * (k + 2)) * d * bytes(T) + bytes(destination)",
};

}  // namespace anyop::ops
