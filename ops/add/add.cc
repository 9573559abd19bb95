// SPDX-License-Identifier: Apache-2.0
// add: the sum of two tensors, or of a tensor and one row.
//
//   z[i, j] = x[i, j] + y[i, j]     or, with y of rank 1     z[i, j] = x[i, j] + y[j]
//
//   x, y  no other broadcasting: anything else is a view with strides of 0 in the first form
//
// Numerics  f32 for floats, rounded once; integers wrap modulo 2^bits.
// Source    IEEE 754.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op add{
    .signature =
        "add(x: T[..., d], y: T[..., d]) -> (z: T[..., d] over x | y) "
        "where T in f32 | f16 | bf16 | i32 | i64\n"
        "add(x: T[..., d], y: T[d]) -> (z: T[..., d] over x) "
        "where T in f32 | f16 | bf16 | i32 | i64",
    .gradient = "add_backward",
    .flops = "size(z)",
    .commutes = "x, y",
    .rowwise = true,
};

}  // namespace anyop::ops
