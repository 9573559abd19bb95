// SPDX-License-Identifier: Apache-2.0
// add_rms_norm_backward: the gradient of add_rms_norm.
//
//   dx[r, j] = dresidual[r, j]
//            = dsum[r, j] + s(r) * g[r, j] - sum[r, j] * s(r)^3 / d * sum_l g[r, l] * sum[r, l]
//   dweight[j] = sum_r dy[r, j] * sum[r, j] * s(r)
//
//   g[r, j] = dy[r, j] * (weight[j] + weight_offset)     s(r) = 1 / sqrt(mean_i(sum[r, i]^2) + eps)
//
//   dy, dsum                    one that nothing used may be absent: it counts as zeros
//   sum                         the second result of the forward pass
//   weight, eps, weight_offset  those of the forward pass; without weight its factor is 1
//
// Numerics  f32 for every T, rounded once, after dsum is added. dweight adds rows in rising order,
//           in chunks of 32.
// Source    a composition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op add_rms_norm_backward{
    .signature =
        "add_rms_norm_backward(dy: T[..., d]?, dsum: T[..., d]?, sum: T[..., d], weight: T[d]?, "
        "eps: float, weight_offset: float) "
        "-> (dx: T[..., d]?, dresidual: T[..., d]?, dweight: T[d]?) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .flops = "14 * size(sum)",
};

}  // namespace anyop::ops
