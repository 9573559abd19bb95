// SPDX-License-Identifier: Apache-2.0
// moe_permute_backward: the gradient of moe_permute.
//
//   dx[i] = sum_a dx_sorted[destination[i, a]]
//
//   destination  as moe_permute gave it; -1 adds nothing
//
// Numerics  Sums in f32 by rising a, one rounding; f8e4m3 is clamped to +-448.
// Source    the definition of moe_permute.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op moe_permute_backward{
    .signature =
        "moe_permute_backward(dx_sorted: T[m, d], destination: i32[t, k] below m) -> "
        "(dx: T[t, d]?) where T in f32 | f16 | bf16 | f8e4m3, t * k < 2147483648",
    .flops = "t * k * d",
    .bytes = "(k + 1) * t * d * bytes(T) + bytes(destination)",
};

}  // namespace anyop::ops
