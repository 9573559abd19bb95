// SPDX-License-Identifier: Apache-2.0
// swiglu: the gate of a SwiGLU feed-forward layer with a limit, a slope and an offset.
//
//   y[r, j] = g' * sigma(alpha * g') * (u' + beta)     g' = min(g, limit)
//                                                      u' = min(max(u, -limit), limit)
//
//   x      order 'halves': g = x[r, j], u = x[r, d + j]; 'interleaved': g = x[r, 2*j],
//          u = x[r, 2*j + 1]
//   limit  absent: g' = g and u' = u; the gate has no lower bound
//   alpha  how steep the sigmoid is
//   beta   what is added to the up projection
//
// Numerics  f32 for every T, rounded once, on the store to y; the limit is compared as f32. NaN
//           stays NaN under a limit.
// Source    transformers 5.23 (gpt-oss: limit 7, alpha 1.702, beta 1, interleaved); vLLM 0.27.1,
//           swigluoai_and_mul and silu_and_mul_with_clamp.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op swiglu{
    .signature =
        "swiglu(x: T[..., 2*d], limit: float?, alpha: float = 1.0, beta: float = 0.0, "
        "order: 'halves' | 'interleaved' = 'halves') -> (y: T[..., d]) "
        "where T in f32 | f16 | bf16, limit > 0",
    .gradient = "swiglu_backward",
    .flops = "18 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
