// SPDX-License-Identifier: Apache-2.0
// grouped_linear_int8_packed: grouped_linear_int8 with weights that pack_weight_int8 made.
//
//   y[i, j] = f32(sum_l xq[i, l] * weight[g, j, l]) * weight_scale[g, j] * x_scale[i] + bias[g, j]
//
//   packed        [e][n/32][k/4][32][4]: weight[g, 32a + j, 4z + w] at [g, a, z, j, w]
//   features      the true n; packed is padded to a multiple of 32
//   weight_scale  of each row of the weight
//   offsets       as in grouped_linear; rows of y beyond the last group are 0
//   bias          added in f32
//
// Numerics  As grouped_linear_int8, bit for bit.
// Source    composition of linear_int8_packed.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grouped_linear_int8_packed{
    .signature =
        "grouped_linear_int8_packed(x: T[m, k], packed: dense i8[e, n32, k4, 32, 4], "
        "features: int, weight_scale: f32[e, features], offsets: I[e+1] offsets m, "
        "bias: T[e, features]?) -> (y: T[m, features]) where T in f32 | f16 | bf16, "
        "I in i32 | i64, k >= 1, k <= 131071, n32 == ceil_div(features, 32), "
        "k4 == ceil_div(k, 4)",
    .flops = "2 * m * features * k",
    .bytes = "bytes(x) + bytes(y) + min(m, e) * n32 * k4 * 128",
};

}  // namespace anyop::ops
