// SPDX-License-Identifier: Apache-2.0
// my_operator: scaled dot-product attention, head by head.
//
//   y[h, i] = sum over j of softmax_j(q[h, i] . k[h, j] / sqrt(d)) * v[h, j]
//
//   causal  row i sees the keys j <= i + s - t: the last row sees all of them
//
// Numerics  f32 for every T, the softmax in one pass (a new maximum rescales what was summed); one
//           rounding, on the store to y. A row that sees no key is 0.
// Source    Vaswani et al. 2017, equation 1. This operator came with the package. Change it.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op my_operator{
    .signature =
        "my_operator(q: T[h, t, d], k: T[h, s, d], v: T[h, s, d], causal: bool = False) "
        "-> (y: T[h, t, d]) where T in f32 | f16 | bf16, d >= 1",
    .flops = "4 * h * t * s * d",
};

}  // namespace anyop::ops
