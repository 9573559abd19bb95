// SPDX-License-Identifier: Apache-2.0
// add_rms_norm: adds a residual, then normalizes by the root mean square of the sum.
//
//   sum[r, i] = x[r, i] + residual[r, i]
//   y[r, i]   = sum[r, i] * s(r) * (weight[i] + weight_offset)
//   s(r)      = 1 / sqrt(mean_i(sum[r, i]^2) + eps)
//
//   weight         one gain per channel; without it the last factor is 1
//   eps            in units of x^2; keeps s finite when a row is all zeros
//   weight_offset  1 for models that store the gain minus 1
//
// Numerics  f32 for every T. sum is rounded to T before it is normalized: the bits are those of add
//           followed by rms_norm, which rounds y once where vLLM rounds it twice. y and sum may
//           take the memory of x and residual.
// Source    a composition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op add_rms_norm{
    .signature =
        "add_rms_norm(x: T[..., d], residual: T[..., d], weight: T[d]?, "
        "eps: float = 1e-6, weight_offset: float = 0.0) "
        "-> (y: T[..., d] over x, sum: T[..., d] over residual) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .gradient = "add_rms_norm_backward",
    .flops = "5 * size(y)",
    .means = "sum = add(x, residual); y = rms_norm(sum, weight, eps, weight_offset)",
    .rowwise = true,
};

}  // namespace anyop::ops
