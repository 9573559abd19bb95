// SPDX-License-Identifier: Apache-2.0
// rms_norm: root-mean-square normalization over the last dimension.
//
//   y[r, i] = x[r, i] * s(r) * (weight[i] + weight_offset)
//   s(r)    = 1 / sqrt(mean_i(x[r, i]^2) + eps)
//
//   weight         one gain per channel; without it the last factor is 1
//   eps            in units of x^2; keeps s finite when a row is all zeros
//   weight_offset  1 for models that store the gain minus 1
//
// Numerics  Sums and products in f32 for every T; one rounding, on the store to y. A row of zeros
//           gives zeros, with eps = 0 NaN. An infinity gives NaN in its place and 0 elsewhere.
//           Rows of any finite magnitude are normalized, whether their squares fit f32 or not.
//           vLLM rounds bf16 and f16 twice, before and after the multiplication by weight: its
//           results may lie one unit in the last place beside these.
// Source    Zhang and Sennrich 2019, arXiv:1910.07467, equation 4.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op rms_norm{
    .signature =
        "rms_norm(x: T[..., d], weight: T[d]?, eps: float = 1e-6, "
        "weight_offset: float = 0.0) -> (y: T[..., d] over x) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .gradient = "rms_norm_backward",
    .flops = "4 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
