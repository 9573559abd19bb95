// SPDX-License-Identifier: Apache-2.0
// my_operator: a scaled product of two tensors, plus a bias.
//
//   y[r, i] = scale * x[r, i] * gate[r, i] + bias[i]
//
//   bias   absent: 0
//   scale  the same for every element
//
// Numerics  f32 for every T; one rounding, on the store to y. NaN stays NaN.
// Source    none; this operator came with the package. Change it.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op my_operator{
    .signature =
        "my_operator(x: T[..., d], gate: T[..., d], bias: T[d]?, scale: float = 1.0) "
        "-> (y: T[..., d] over x) where T in f32 | f16 | bf16",
    .gradient = "my_operator_backward",  // @gradient
    .flops = "3 * size(y)",
};

}  // namespace anyop::ops
