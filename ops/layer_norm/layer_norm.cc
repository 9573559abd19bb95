// SPDX-License-Identifier: Apache-2.0
// layer_norm: normalization of each row to mean 0 and variance 1.
//
//   y[r, i] = z[r, i] * weight[i] + bias[i]     z[r, i] = (x[r, i] - mu(r)) * s(r)
//
//   mu(r) = mean_i(x[r, i])     s(r) = 1 / sqrt(mean_i((x[r, i] - mu(r))^2) + eps)
//
//   weight, bias  one per channel, each with or without the other; absent: 1 and 0
//   eps           in units of x^2; keeps s finite when a row is constant
//
// Numerics  f32 for every T, the mean first, then the squares; one rounding, on the store to y.
//           A constant row gives bias, up to a rounding error of mu times s. Rows of any finite
//           magnitude are normalized, whether their squares fit f32 or not; torch gives NaN for
//           elements from about 1e19 on.
// Source    Ba, Kiros and Hinton 2016, arXiv:1607.06450.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op layer_norm{
    .signature =
        "layer_norm(x: T[..., d], weight: T[d]?, bias: T[d]?, eps: float = 1e-5) "
        "-> (y: T[..., d] over x) where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .gradient = "layer_norm_backward",
    .flops = "8 * size(y)",
    .rowwise = true,
};

}  // namespace anyop::ops
