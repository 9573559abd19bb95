// SPDX-License-Identifier: Apache-2.0
// layer_norm_backward: the gradient of layer_norm.
//
//   dx[r, j]   = s(r) * (g[r, j] - mean_l(g[r, l]) - z[r, j] * mean_l(g[r, l] * z[r, l]))
//   dweight[j] = sum_r dy[r, j] * z[r, j]
//   dbias[j]   = sum_r dy[r, j]
//
//   g[r, j] = dy[r, j] * weight[j]     z, s as in layer_norm
//
// Numerics  f32 for every T, rounded once. Sums of rows in rising order, in chunks of 32.
// Source    the derivative of Ba, Kiros and Hinton 2016, arXiv:1607.06450.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op layer_norm_backward{
    .signature =
        "layer_norm_backward(dy: T[..., d], x: T[..., d], weight: T[d]?, eps: float) "
        "-> (dx: T[..., d]?, dweight: T[d]?, dbias: T[d]?) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .flops = "20 * size(x)",
};

}  // namespace anyop::ops
