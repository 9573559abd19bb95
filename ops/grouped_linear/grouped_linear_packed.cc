// SPDX-License-Identifier: Apache-2.0
// grouped_linear_packed: what grouped_linear computes, with weights that pack_weight made.
//
//   y[i, j] = sum_l x[i, l] * weight[g, j, l] + bias[g, j]     offsets[g] <= i < offsets[g + 1]
//
//   packed    [e][n/32][k/2][32][2]: weight[g, 32a + j, 2z + w] at [g, a, z, j, w]
//   features  the true n; packed is padded with zeros to a multiple of 32
//   offsets   as in grouped_linear; rows of y beyond the last group are 0
//   bias      added to the f32 sum
//
// Numerics  As linear_packed in each group: a row always has the same bits alone and in a batch.
// Source    composition of linear_packed.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grouped_linear_packed{
    .signature =
        "grouped_linear_packed(x: T[m, k], packed: dense T[e, n32, k2, 32, 2], features: int, "
        "offsets: I[e+1] offsets m, bias: T[e, features]?) -> (y: T[m, features]) "
        "where T in f32 | f16 | bf16, I in i32 | i64, n32 == ceil_div(features, 32), "
        "k2 == ceil_div(k, 2)",
    .flops = "2 * m * features * k",
    .bytes = "bytes(x) + bytes(y) + min(m, e) * n32 * k2 * 64 * bytes(T)",
};

}  // namespace anyop::ops
