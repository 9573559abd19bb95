// SPDX-License-Identifier: Apache-2.0
// linear_int8: a dense layer with a weight of bytes; x is quantized on the way.
//
//   xq, x_scale = quantize_int8_dynamic(x)
//   y[i, j] = f32(sum_l xq[i, l] * weight[j, l]) * weight_scale[j] * x_scale[i] + bias[j]
//
//   weight        one row per output feature; rows may be strided (a slice of a merged weight)
//   weight_scale  of each row
//   bias          added in f32
//
// Numerics  The sum is exact; then each step in f32 in the order of the formula, and one rounding,
//           on the store to y. A row has the same bits alone and in a batch. NaN in x counts as 0;
//           a row with an infinity gives NaN.
// Source    vLLM 0.27.1, onednn_scaled_mm and int8_scaled_mm_with_quant.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op linear_int8{
    .signature =
        "linear_int8(x: T[..., k], weight: i8[n, k], weight_scale: f32[n], bias: U[n]?) "
        "-> (y: T[..., n]) where T in f32 | f16 | bf16, U in f32 | f16 | bf16, k >= 1, "
        "k <= 131071",
    .flops = "2 * rows(x) * n * k",
    .prepack =
        "packed = pack_weight_int8(weight); "
        "y = linear_int8_packed(x, packed, n, weight_scale, bias)",
};

}  // namespace anyop::ops
