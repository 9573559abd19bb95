// SPDX-License-Identifier: Apache-2.0
// grouped_linear: a dense layer for each group of rows, as for the tokens of each expert.
//
//   y[i, j] = sum_l x[i, l] * weight[g, j, l] + bias[g, j]     offsets[g] <= i < offsets[g + 1]
//
//   weight   one matrix per group, one row per output feature; rows may be strided
//   offsets  where each group begins, and at last how many rows there are: as moe_permute gives
//            them; rows of y beyond are 0
//   bias     added to the f32 sum
//
// A group without rows costs nothing: its weight is not read.
//
// Numerics  As linear in each group: sums and bias in f32 for every T, one rounding. A row has the
//           same bits alone and in a batch in batch-invariant mode.
// Source    composition of linear.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grouped_linear{
    .signature =
        "grouped_linear(x: T[m, k], weight: T[e, n, k], offsets: I[e+1] offsets m, "
        "bias: T[e, n]?) -> (y: T[m, n]) where T in f32 | f16 | bf16, I in i32 | i64",
    .gradient = "grouped_linear_backward",
    .flops = "2 * m * n * k",
    .bytes = "bytes(x) + bytes(y) + min(m, e) * n * k * bytes(T)",
    .prepack =
        "packed = pack_weight(weight); "
        "y = grouped_linear_packed(x, packed, n, offsets, bias)",
};

}  // namespace anyop::ops
