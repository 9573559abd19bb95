// SPDX-License-Identifier: Apache-2.0
// my_operator: a matrix product with the weight's rows, plus a bias.
//
//   y[r, j] = sum over i of x[r, i] * weight[j, i] + bias[j]
//
//   bias  absent: 0
//
// Numerics  f32 for every T, a partial sum per lane; one rounding, on the store to y.
// Source    none; this operator came with the package. Change it.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op my_operator{
    .signature =
        "my_operator(x: T[..., k], weight: T[n, k], bias: T[n]?) -> (y: T[..., n]) "
        "where T in f32 | f16 | bf16",
    .gradient = "my_operator_backward",  // @gradient
    .flops = "2 * rows(x) * n * k",
};

}  // namespace anyop::ops
