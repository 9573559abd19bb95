// SPDX-License-Identifier: Apache-2.0
// swiglu_backward: the gradient of swiglu.
//
//   dg[r, j] = dy[r, j] * (u' + beta) * s * (1 + alpha * g' * (1 - s))    0 where g > limit
//   du[r, j] = dy[r, j] * g' * s                                          0 where |u| > limit
//
//   dx holds dg and du in the places of g and u; s = sigma(alpha * g')
//
// Numerics  f32 for every T, rounded once. 1 - s keeps its bits where s is near 1. At exactly the
//           limit the gradient passes; with a limit it does not at NaN.
// Source    the derivative of swiglu.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op swiglu_backward{
    .signature =
        "swiglu_backward(dy: T[..., d], x: T[..., 2*d], limit: float?, alpha: float, beta: float, "
        "order: 'halves' | 'interleaved') -> (dx: T[..., 2*d]?) "
        "where T in f32 | f16 | bf16, limit > 0",
    .flops = "25 * size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
