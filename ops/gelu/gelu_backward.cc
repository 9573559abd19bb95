// SPDX-License-Identifier: Apache-2.0
// gelu_backward: the gradient of gelu.
//
//   dx = dy * G'(x)
//
//   none   G' = Phi + x * phi, Phi = (1 + erf(x / sqrt(2))) / 2, phi = exp(-x^2 / 2) / sqrt(2*pi)
//   tanh   G' = (1 + w) / 2 + x/2 * (1 - w^2) * a * (1 + 3*0.044715*x^2),
//          w = tanh(a * (x + 0.044715*x^3)), a = sqrt(2/pi)
//   quick  G' = q * (1 + 1.702*x * (1 - q)), q = 1 / (1 + exp(-1.702*x))
//
// Numerics  f32 for every T, rounded once. f32: 4 ulp, and 4 * 2^-24 * |dy| times G' with every
//           term made absolute: (1 + |erf|) / 2 + |x| * phi, likewise for 'tanh', and for 'quick'
//           q * (1 + 1.702*|x| * (1 + q)), so that it keeps its digits far below 0. -inf gives 0,
//           +inf gives dy, the limits; torch gives NaN.
// Source    the derivative of Hendrycks and Gimpel 2016, arXiv:1606.08415.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op gelu_backward{
    .signature =
        "gelu_backward(dy: T[...], x: T[...], kind: 'none' | 'tanh' | 'quick') "
        "-> (dx: T[...]? over dy) where T in f32 | f16 | bf16",
    .flops = "30 * size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
