// SPDX-License-Identifier: Apache-2.0
// softmax: exponentials of a row, divided by their sum.
//
//   y[r, j] = exp(scale * x[r, j] - m) / sum_l exp(scale * x[r, l] - m)
//   m       = max_j scale * x[r, j]
//
//   scale  multiplies x first: an inverse temperature
//
// Numerics  f32 for every T, rounded once, on the store to y; exponentials are never rounded to T.
//           -inf gives 0; a row with NaN or +inf, or of nothing but -inf, gives NaN throughout.
// Source    the definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op softmax{
    .signature =
        "softmax(x: T[..., d], scale: float = 1.0) -> (y: T[..., d] over x) "
        "where T in f32 | f16 | bf16, d >= 1",
    .gradient = "softmax_backward",
    .flops = "15 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
