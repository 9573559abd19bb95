// SPDX-License-Identifier: Apache-2.0
// linear_int8_packed: what linear_int8 computes, with a weight that pack_weight_int8 made.
//
//   y[i, j] = f32(sum_l xq[i, l] * weight[j, l]) * weight_scale[j] * x_scale[i] + bias[j]
//
//   packed        [n/32][k/4][32][4]: weight[32a + j, 4z + w] at [a, z, j, w]
//   features      the true n; packed is padded to a multiple of 32
//   weight_scale  of each row of the weight
//   bias          added in f32
//
// Numerics  As linear_int8, bit for bit.
// Source    vLLM 0.27.1, onednn_scaled_mm and int8_scaled_mm_with_quant.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_int8_packed{
    .signature =
        "linear_int8_packed(x: T[..., k], packed: dense i8[n32, k4, 32, 4], features: int, "
        "weight_scale: f32[features], bias: U[features]?) -> (y: T[..., features]) "
        "where T in f32 | f16 | bf16, U in f32 | f16 | bf16, k >= 1, k <= 131071, "
        "n32 == ceil_div(features, 32), k4 == ceil_div(k, 4)",
    .flops = "2 * rows(x) * features * k",
};

}  // namespace anyop::ops
