// SPDX-License-Identifier: Apache-2.0
// argmax: where the largest element of each row is.
//
//   index[r] = the lowest j with the largest x[r, j]
//
// Numerics  Exact. -0 equals +0. NaN ranks below -inf: it is found only in a row of nothing but
//           NaN, which gives 0.
// Source    Definition. PyTorch and JAX rank NaN highest.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op argmax{
    .signature = "argmax(x: T[..., d]) -> (index: i64[...]) where T in f32 | f16 | bf16, d >= 1",
    .flops = "size(x)",
    .rowwise = true,
};

}  // namespace anyop::ops
