// SPDX-License-Identifier: Apache-2.0
// my_operator: the mean of the squares of each row.
//
//   y[r, 0] = sum over i of x[r, i] * x[r, i] / d
//
// Numerics  f32 for every T, a partial sum per lane; one rounding, on the store to y. NaN stays NaN.
// Source    none; this operator came with the package. Change it.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op my_operator{
    .signature = "my_operator(x: T[..., d]) -> (y: T[..., 1]) where T in f32 | f16 | bf16, d >= 1",
    .gradient = "my_operator_backward",  // @gradient
    .flops = "2 * size(x)",
};

}  // namespace anyop::ops
