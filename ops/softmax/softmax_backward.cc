// SPDX-License-Identifier: Apache-2.0
// softmax_backward: the gradient of softmax, from its result.
//
//   dx[r, j] = scale * y[r, j] * (dy[r, j] - sum_l dy[r, l] * y[r, l])
//
// Numerics  f32 for every T, from y as it was rounded; rounded once.
// Source    the derivative of the definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op softmax_backward{
    .signature =
        "softmax_backward(dy: T[..., d], y: T[..., d], scale: float) "
        "-> (dx: T[..., d]? over dy) where T in f32 | f16 | bf16, d >= 1",
    .flops = "5 * size(dx)",
    .rowwise = true,
};

}  // namespace anyop::ops
