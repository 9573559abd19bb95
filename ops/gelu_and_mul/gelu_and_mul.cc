// SPDX-License-Identifier: Apache-2.0
// gelu_and_mul: the gate of a feed-forward layer with the Gaussian error linear unit.
//
//   y[r, j] = G(x[r, j]) * x[r, d + j]
//
//   x            the gate in the first half of a row, the up projection in the second
//   approximate  G is gelu of this kind: 'none' with erf, 'tanh' with tanh
//
// Numerics  f32 for every T, rounded once, on the store to y. A gate of -inf counts as -0, not NaN.
// Source    Hendrycks and Gimpel 2016, arXiv:1606.08415; vLLM 0.27.1, gelu_and_mul and
//           gelu_tanh_and_mul.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op gelu_and_mul{
    .signature =
        "gelu_and_mul(x: T[..., 2*d], approximate: 'none' | 'tanh' = 'none') -> (y: T[..., d]) "
        "where T in f32 | f16 | bf16",
    .gradient = "gelu_and_mul_backward",
    .flops = "25 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
