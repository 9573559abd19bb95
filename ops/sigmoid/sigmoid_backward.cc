// SPDX-License-Identifier: Apache-2.0
// sigmoid_backward: the gradient of sigmoid, from its result.
//
//   dx = dy * y * (1 - y)
//
// Numerics  f32 for every T, from y as it was rounded; rounded once.
// Source    the derivative of the definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op sigmoid_backward{
    .signature =
        "sigmoid_backward(dy: T[...], y: T[...]) -> (dx: T[...]? over dy) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(dx)",
    .rowwise = true,
};

}  // namespace anyop::ops
