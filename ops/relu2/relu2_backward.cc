// SPDX-License-Identifier: Apache-2.0
// relu2_backward: the gradient of relu2.
//
//   dx = dy * 2 * max(x, 0)
//
// Numerics  f32 for every T, rounded once.
// Source    the derivative of So et al. 2021, arXiv:2109.08668.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op relu2_backward{
    .signature =
        "relu2_backward(dy: T[...], x: T[...]) -> (dx: T[...]? over dy) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
