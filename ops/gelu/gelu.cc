// SPDX-License-Identifier: Apache-2.0
// gelu: the Gaussian error linear unit, element by element.
//
//   none   y = x/2 * (1 + erf(x / sqrt(2)))
//   tanh   y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3)))
//   quick  y = x / (1 + exp(-1.702*x))
//
// Numerics  f32 for every T, rounded once. f32: 4 ulp where x > 0, else an absolute error of
//           4 * 2^-24 * |x|. No finite x overflows; -inf gives -0, +inf gives +inf, the limits.
//           torch gives NaN for -inf, and where its kind is 'none' for +inf too.
// Source    Hendrycks and Gimpel 2016, arXiv:1606.08415.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op gelu{
    .signature =
        "gelu(x: T[...], kind: 'none' | 'tanh' | 'quick' = 'none') -> (y: T[...] over x) "
        "where T in f32 | f16 | bf16",
    .gradient = "gelu_backward",
    .flops = "20 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
