// SPDX-License-Identifier: Apache-2.0
// sigmoid: the logistic function, element by element.
//
//   y = 1 / (1 + exp(-x))
//
// Numerics  f32 for every T, rounded once. No finite x overflows; -inf gives 0, +inf gives 1, NaN
//           gives NaN. Below x = -87 the f32 error is at most 2^-126.
// Source    the definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op sigmoid{
    .signature = "sigmoid(x: T[...]) -> (y: T[...] over x) where T in f32 | f16 | bf16",
    .gradient = "sigmoid_backward",
    .flops = "12 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
