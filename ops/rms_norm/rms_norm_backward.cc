// SPDX-License-Identifier: Apache-2.0
// rms_norm_backward: the gradient of rms_norm.
//
//   dx[r, j]   = s(r) * g[r, j] - x[r, j] * s(r)^3 / d * sum_l g[r, l] * x[r, l]
//   dweight[j] = sum_r dy[r, j] * x[r, j] * s(r)
//
//   g[r, j] = dy[r, j] * (weight[j] + weight_offset)     s(r) = 1 / sqrt(mean_i(x[r, i]^2) + eps)
//
//   weight, eps, weight_offset  those of the forward pass; without weight its factor is 1
//
// Numerics  f32 for every T, rounded once. dweight adds rows in rising order, in chunks of 32.
// Source    the derivative of Zhang and Sennrich 2019, arXiv:1910.07467, equation 4.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op rms_norm_backward{
    .signature =
        "rms_norm_backward(dy: T[..., d], x: T[..., d], weight: T[d]?, eps: float, "
        "weight_offset: float) -> (dx: T[..., d]?, dweight: T[d]?) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .flops = "13 * size(x)",
};

}  // namespace anyop::ops
