// SPDX-License-Identifier: Apache-2.0
// cast_backward: the gradient of cast between floats: a cast back.
//
//   dx = dy in the dtype of x
//
//   x  is looked at for its dtype only
//
// Numerics  Exact where it can be; else one rounding, half to even, subnormals kept. What lies
//           beyond an f8 becomes its largest value.
// Source    the definition of cast.

#include "ops/cast/backward.h"

namespace anyop::ops {

extern const Kernel cast_backward_avx512 [[gnu::weak]];
extern const Kernel cast_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&cast_backward_avx512, &cast_backward_avx2, &kPortable};

extern constinit const Op cast_backward{
    .signature =
        "cast_backward(dy: U[...], x: T[...]) -> (dx: T[...]?) "
        "where T in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2, "
        "U in f64 | f32 | f16 | bf16 | f8e4m3 | f8e5m2",
    .bytes = "bytes(dy) + bytes(dx)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
