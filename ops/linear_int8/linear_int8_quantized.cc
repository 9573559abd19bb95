// SPDX-License-Identifier: Apache-2.0
// linear_int8_quantized: a dense layer of bytes.
//
//   D[i, j] = sum_l (x[i, l] - x_zero[i]) * weight[j, l]
//   y[i, j] = f32(D[i, j]) * weight_scale[j] * x_scale[i] + bias[j]
//
//   x_scale       of each row of x, as quantize_int8_dynamic gives it, or one for all
//   weight        one row per output feature; rows may be strided
//   weight_scale  of each row
//   bias          added in f32
//   to            f32, f16 or bf16
//   x_zero        the byte that stands for 0, of each row of x or one for all; any integer, 0 if
//                 absent
//
// Numerics  D is exact; then each step in f32 in the order of the formula, and one rounding, on the
//           store to y. A row has the same bits alone and in a batch. k = 0 gives the bias.
// Source    vLLM 0.27.1, onednn_scaled_mm, which rounds before it subtracts the zero point's part.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_int8_quantized{
    .signature =
        "linear_int8_quantized(x: i8[..., k], x_scale: f32[..., 1], weight: i8[n, k], "
        "weight_scale: f32[n], bias: U[n]?, to: dtype, x_zero: i32[..., 1]?) -> (y: to[..., n]) "
        "where U in f32 | f16 | bf16, to in f32 | f16 | bf16, k <= 131071, "
        "k <= 65535 or not given(x_zero)\n"
        "linear_int8_quantized(x: i8[..., k], x_scale: f32[1], weight: i8[n, k], "
        "weight_scale: f32[n], bias: U[n]?, to: dtype, x_zero: i32[1]?) -> (y: to[..., n]) "
        "where U in f32 | f16 | bf16, to in f32 | f16 | bf16, k <= 131071, "
        "k <= 65535 or not given(x_zero)",
    .flops = "2 * rows(x) * n * k",
    .prepack =
        "packed = pack_weight_int8(weight); sums = sum_weight_int8(weight) if given(x_zero); "
        "y = linear_int8_quantized_packed(x, x_scale, packed, n, weight_scale, bias, to, x_zero, "
        "sums)",
};

}  // namespace anyop::ops
