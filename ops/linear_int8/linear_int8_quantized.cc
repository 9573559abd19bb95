// SPDX-License-Identifier: Apache-2.0
// linear_int8_quantized: a dense layer of bytes.
//
//   y[i, j] = f32(sum_l x[i, l] * weight[j, l]) * weight_scale[j] * x_scale[i] + bias[j]
//
//   x_scale       of each row of x, as quantize_int8_dynamic gives it
//   weight        one row per output feature; rows may be strided
//   weight_scale  of each row
//   bias          added in f32
//   to            f32, f16 or bf16
//
// Numerics  The sum is exact; then each step in f32 in the order of the formula, and one rounding,
//           on the store to y. A row has the same bits alone and in a batch. k = 0 gives the bias.
// Source    vLLM 0.27.1, onednn_scaled_mm.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_int8_quantized{
    .signature =
        "linear_int8_quantized(x: i8[..., k], x_scale: f32[..., 1], weight: i8[n, k], "
        "weight_scale: f32[n], bias: U[n]?, to: dtype) -> (y: to[..., n]) "
        "where U in f32 | f16 | bf16, to in f32 | f16 | bf16, k <= 131071",
    .flops = "2 * rows(x) * n * k",
};

}  // namespace anyop::ops
