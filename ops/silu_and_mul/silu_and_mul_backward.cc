// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_backward: the gradient of silu_and_mul.
//
//   dx[r, j]     = dy[r, j] * u * s * (1 + g * (1 - s))     g = x[r, j], u = x[r, d + j]
//   dx[r, d + j] = dy[r, j] * g * s                         s = 1 / (1 + exp(-g))
//
// Numerics  f32 for every T, rounded once. 1 - s keeps its bits where s is near 1.
// Source    the derivative of Shazeer 2020, arXiv:2002.05202.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op silu_and_mul_backward{
    .signature =
        "silu_and_mul_backward(dy: T[..., d], x: T[..., 2*d]) -> (dx: T[..., 2*d]?) "
        "where T in f32 | f16 | bf16",
    .flops = "20 * size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
