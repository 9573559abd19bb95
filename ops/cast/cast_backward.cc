// SPDX-License-Identifier: Apache-2.0
// cast_backward: the gradient of cast between floats: a cast back.
//
//   dx = dy in the dtype of x
//
//   x  is looked at for its dtype only
//
// Numerics  Exact where it can be; else one rounding, half to even, subnormals kept. What lies
//           beyond an f8 becomes its largest value. f8e8m0 has none, because slopes have signs.
// Source    the definition of cast.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op cast_backward{
    .signature =
        "cast_backward(dy: U[...], x: T[...]) -> (dx: T[...]?) "
        "where T in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2 | c64 | c128 | f8e4m3fnuz | "
        "f8e5m2fnuz, U in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2 | c64 | c128 | f8e4m3fnuz | "
        "f8e5m2fnuz",
    .bytes = "bytes(dy) + bytes(dx)",
    .rowwise = true,
};

}  // namespace anyop::ops
