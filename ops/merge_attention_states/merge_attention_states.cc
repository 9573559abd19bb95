// SPDX-License-Identifier: Apache-2.0
// merge_attention_states: attention over parts of the keys, put together.
//
//   m = max_a lses[a], w_a = exp(lses[a] - m)
//   y = sum_a w_a * outs[a] / sum_a w_a
//   lse = m + ln sum_a w_a
//
//   outs  the result of attention over each part of the keys
//   lses  its logarithm of the sum of exponentials, head by head. A sink may be in one part only
//
// Numerics  Weights and sums in f32, one rounding on the store to y. An lse of +inf counts as
//           -inf. A part whose lse is -inf contributes nothing, even if its out holds NaN. All
//           -inf: y is 0, lse is -inf. A row does not depend on others.
// Source    arXiv:2501.01005, section 2.2.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op merge_attention_states{
    .signature =
        "merge_attention_states(outs: T[t, h, d]*, lses: f32[h, t]*) -> (y: T[t, h, d], "
        "lse: f32[h, t]) where T in f32 | f16 | bf16, len(outs) == len(lses), len(outs) >= 1",
    .flops = "3 * len(outs) * t * h * d",
};

}  // namespace anyop::ops
