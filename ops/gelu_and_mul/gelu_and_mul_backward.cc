// SPDX-License-Identifier: Apache-2.0
// gelu_and_mul_backward: the gradient of gelu_and_mul.
//
//   dx[r, j]     = dy[r, j] * u * G'(g)     g = x[r, j], u = x[r, d + j]
//   dx[r, d + j] = dy[r, j] * G(g)
//
//   approximate  as in the forward pass; gelu_backward tells G'
//
// Numerics  f32 for every T, rounded once.
// Source    the derivative of Hendrycks and Gimpel 2016, arXiv:1606.08415.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op gelu_and_mul_backward{
    .signature =
        "gelu_and_mul_backward(dy: T[..., d], x: T[..., 2*d], approximate: 'none' | 'tanh') "
        "-> (dx: T[..., 2*d]?) where T in f32 | f16 | bf16",
    .flops = "50 * size(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
