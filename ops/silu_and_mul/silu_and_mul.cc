// SPDX-License-Identifier: Apache-2.0
// silu_and_mul: the gate of a SwiGLU feed-forward layer.
//
//   y[r, j] = g * sigma(g) * u     g = x[r, j], u = x[r, d + j], sigma(g) = 1 / (1 + exp(-g))
//
//   x  the gate in the first half of a row, the up projection in the second
//
// Numerics  f32 for every T, rounded once, on the store to y. g = -inf gives NaN, as 0 * inf does.
// Source    Shazeer 2020, arXiv:2002.05202; vLLM 0.27.1.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op silu_and_mul{
    .signature = "silu_and_mul(x: T[..., 2*d]) -> (y: T[..., d]) where T in f32 | f16 | bf16",
    .gradient = "silu_and_mul_backward",
    .flops = "15 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
