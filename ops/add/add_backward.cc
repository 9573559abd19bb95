// SPDX-License-Identifier: Apache-2.0
// add_backward: the gradient of add.
//
//   dx[i, j] = dz[i, j]     dy[i, j] = dz[i, j]     or, with y of rank 1     dy[j] = sum_i dz[i, j]
//
//   y  is looked at for its shape only
//
// Numerics  Copies are exact. The sum is taken in f32 in rising order of rows, in chunks of 32
//           rows, and rounded once.
// Source    the definition of add.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op add_backward{
    .signature =
        "add_backward(dz: T[..., d], y: T[..., d]) -> (dx: T[..., d]? over dz, dy: T[..., d]?) "
        "where T in f32 | f16 | bf16\n"
        "add_backward(dz: T[..., d], y: T[d]) -> (dx: T[..., d]? over dz, dy: T[d]?) "
        "where T in f32 | f16 | bf16",
    .flops = "size(dz) - size(dy)",
    .bytes = "bytes(dz) + bytes(dx) + bytes(dy)",
    .rowwise = true,
};

}  // namespace anyop::ops
