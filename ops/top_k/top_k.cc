// SPDX-License-Identifier: Apache-2.0
// top_k: the k largest elements of each row, and where they are.
//
//   indices[r, :] = the k numbers j whose x[r, j] are largest
//   values[r, i]  = x[r, indices[r, i]]
//
//   sorted  true: by falling value, equals by rising index; false: the same set by rising index
//
// Numerics  Exact. Of equal values at the border the lower indices are taken; -0 equals +0; NaN
//           ranks below -inf.
// Source    Definition. PyTorch and JAX rank NaN highest.
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op top_k{
    .signature =
        "top_k(x: T[..., d], k: int, sorted: bool = True) -> "
        "(values: T[..., k], indices: i64[..., k]) "
        "where T in f32 | f16 | bf16, k >= 0, k <= d",
    .flops = "4 * size(x)",
    .rowwise = true,
};

}  // namespace anyop::ops
