// SPDX-License-Identifier: Apache-2.0
// cast: the values of a tensor in another dtype.
//
//   to        the dtype of the result
//   saturate  the default: what lies beyond an f8 becomes its largest value, 448 or 57344.
//             Infinities do too, even in f8e5m2, which has infinities, and even those that are
//             f8e5m2 already; torch's .to() keeps them. With False f8e4m3 gets NaN there and f8e5m2
//             infinity. f16 and bf16 never saturate. The fnuz kinds end at 240 and 57344,
//             f8e8m0 at 2^127; with False they get NaN
//
// Numerics  Exact where it can be. To a narrower float: one rounding, half to even, subnormals
//           kept. Float to integer: toward zero, then clamped to the range; NaN gives 0. Integer
//           to a narrower integer: the low bits. To bool: x != 0, NaN is true. NaN stays NaN in
//           floats. Of a complex number a real one is the real part. f8e8m0 is the nearest
//           power of two, from the middle the larger one; 0 becomes 2^-127, a negative number NaN.
// Source    IEEE 754; OCP 8-bit floating point specification 1.0; OCP microscaling formats 1.0;
//           PyTorch's conversions of the fnuz kinds and of float8_e8m0fnu.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op cast{
    .signature =
        "cast(x: T[...], to: dtype, saturate: bool = True) -> (y: to[...]) where "
        "T in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2 | i64 | i32 | i16 | i8 | u8 | bool | "
        "u16 | u32 | u64 | c64 | c128 | f8e8m0 | f8e4m3fnuz | f8e5m2fnuz, "
        "to in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2 | i64 | i32 | i16 | i8 | u8 | bool | "
        "u16 | u32 | u64 | c64 | c128 | f8e8m0 | f8e4m3fnuz | f8e5m2fnuz",
    .gradient = "cast_backward",
    .rowwise = true,
};

}  // namespace anyop::ops
