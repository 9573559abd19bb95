// SPDX-License-Identifier: Apache-2.0
// linear_int8_quantized_packed: linear_int8_quantized with a weight of pack_weight_int8.
//
//   D[i, j] = sum_l (x[i, l] - x_zero[i]) * weight[j, l]
//   y[i, j] = f32(D[i, j]) * weight_scale[j] * x_scale[i] + bias[j]
//
//   x_scale       of each row of x, or one for all
//   packed        [n/32][k/4][32][4]: weight[32a + j, 4z + w] at [a, z, j, w]
//   features      the true n; packed is padded to a multiple of 32
//   weight_scale  of each row of the weight
//   bias          added in f32
//   to            f32, f16 or bf16
//   x_zero        as in linear_int8_quantized
//   weight_sum    sum_l weight[j, l], as sum_weight_int8 gives it, where there is x_zero; without
//                 it the weight is read twice
//
// Numerics  As linear_int8_quantized, bit for bit.
// Source    vLLM 0.27.1, onednn_scaled_mm.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_int8_quantized_packed{
    .signature =
        "linear_int8_quantized_packed(x: i8[..., k], x_scale: f32[..., 1], "
        "packed: dense i8[n32, k4, 32, 4], features: int, weight_scale: f32[features], "
        "bias: U[features]?, to: dtype, x_zero: i32[..., 1]?, weight_sum: i32[features]?) "
        "-> (y: to[..., features]) where U in f32 | f16 | bf16, to in f32 | f16 | bf16, "
        "k <= 131071, k <= 65535 or not given(x_zero), n32 == ceil_div(features, 32), "
        "k4 == ceil_div(k, 4)\n"
        "linear_int8_quantized_packed(x: i8[..., k], x_scale: f32[1], "
        "packed: dense i8[n32, k4, 32, 4], features: int, weight_scale: f32[features], "
        "bias: U[features]?, to: dtype, x_zero: i32[1]?, weight_sum: i32[features]?) "
        "-> (y: to[..., features]) where U in f32 | f16 | bf16, to in f32 | f16 | bf16, "
        "k <= 131071, k <= 65535 or not given(x_zero), n32 == ceil_div(features, 32), "
        "k4 == ceil_div(k, 4)",
    .flops = "2 * rows(x) * features * k",
};

}  // namespace anyop::ops
