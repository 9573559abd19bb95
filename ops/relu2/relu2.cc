// SPDX-License-Identifier: Apache-2.0
// relu2: the square of the rectified linear unit, element by element.
//
//   y = max(x, 0)^2
//
// Numerics  f32 for every T, rounded once. NaN gives NaN, -0 and negatives +0; too large a square
//           is +inf (f16: from x = 255.9 on).
// Source    So et al. 2021, arXiv:2109.08668; vLLM 0.27.1, relu_squared.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op relu2{
    .signature = "relu2(x: T[...]) -> (y: T[...] over x) where T in f32 | f16 | bf16",
    .gradient = "relu2_backward",
    .flops = "2 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
