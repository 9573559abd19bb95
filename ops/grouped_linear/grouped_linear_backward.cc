// SPDX-License-Identifier: Apache-2.0
// grouped_linear_backward: the gradients of grouped_linear.
//
//   dx[i, l] = sum_j dy[i, j] * weight[g, j, l]         offsets[g] <= i < offsets[g + 1]
//   dweight[g, j, l] = sum_i dy[i, j] * x[i, l]         over the rows i of group g
//   dbias[g, j] = sum_i dy[i, j]
//
//   offsets  as in grouped_linear; rows of dx beyond the last group are 0, and so are dweight and
//            dbias of a group without rows
//
// Numerics  As linear_backward in each group: sums in f32 in an order that does not depend on
//           threads, one rounding.
// Source    the definition of grouped_linear.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op grouped_linear_backward{
    .signature =
        "grouped_linear_backward(dy: T[m, n], x: T[m, k], weight: T[e, n, k], "
        "offsets: I[e+1] offsets m) -> (dx: T[m, k]?, dweight: T[e, n, k]?, dbias: T[e, n]?) "
        "where T in f32 | f16 | bf16, I in i32 | i64",
    .flops = "4 * m * n * k",
};

}  // namespace anyop::ops
