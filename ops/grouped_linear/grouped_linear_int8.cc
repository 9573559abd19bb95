// SPDX-License-Identifier: Apache-2.0
// grouped_linear_int8: a dense layer with a weight of bytes for each group of rows.
//
//   xq, x_scale = quantize_int8_dynamic(x)
//   y[i, j] = f32(sum_l xq[i, l] * weight[g, j, l]) * weight_scale[g, j] * x_scale[i] + bias[g, j]
//                                                       offsets[g] <= i < offsets[g + 1]
//
//   weight        one matrix per group, one row per output feature; rows may be strided
//   weight_scale  of each row
//   offsets       as in grouped_linear; rows of y beyond the last group are 0
//   bias          added in f32
//
// x is quantized on the way.
//
// Numerics  As linear_int8 in each group: the sum is exact, a row has the same bits alone and in a
//           batch. NaN in x counts as 0; a row with an infinity gives NaN.
// Source    composition of linear_int8.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grouped_linear_int8{
    .signature =
        "grouped_linear_int8(x: T[m, k], weight: i8[e, n, k], weight_scale: f32[e, n], "
        "offsets: I[e+1] offsets m, bias: T[e, n]?) -> (y: T[m, n]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, k >= 1, k <= 131071",
    .flops = "2 * m * n * k",
    .bytes = "bytes(x) + bytes(y) + min(m, e) * n * k",
    .prepack =
        "packed = pack_weight_int8(weight); "
        "y = grouped_linear_int8_packed(x, packed, n, weight_scale, offsets, bias)",
};

}  // namespace anyop::ops
