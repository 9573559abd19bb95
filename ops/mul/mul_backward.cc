// SPDX-License-Identifier: Apache-2.0
// mul_backward: the gradient of mul.
//
//   dx[i, j] = dz[i, j] * y[i, j]     dy[i, j] = dz[i, j] * x[i, j]
//
//   or, with y of rank 1     dx[i, j] = dz[i, j] * y[j]     dy[j] = sum_i dz[i, j] * x[i, j]
//
// Numerics  f32, rounded once. The sum is taken in rising order of rows, in chunks of 32 rows.
// Source    the definition of mul.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op mul_backward{
    .signature =
        "mul_backward(dz: T[..., d], x: T[..., d], y: T[..., d]) "
        "-> (dx: T[..., d]? over dz, dy: T[..., d]?) where T in f32 | f16 | bf16\n"
        "mul_backward(dz: T[..., d], x: T[..., d], y: T[d]) "
        "-> (dx: T[..., d]? over dz, dy: T[d]?) where T in f32 | f16 | bf16",
    .flops = "3 * size(dz) - size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
