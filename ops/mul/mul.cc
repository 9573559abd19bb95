// SPDX-License-Identifier: Apache-2.0
// mul: the product of two tensors, or of a tensor and one row.
//
//   z[i, j] = x[i, j] * y[i, j]     or, with y of rank 1     z[i, j] = x[i, j] * y[j]
//
//   x, y  no other broadcasting: anything else is a view with strides of 0 in the first form
//
// Numerics  f32 for floats, rounded once; integers wrap modulo 2^bits.
// Source    IEEE 754.

#include "ops/mul/kernel.h"

namespace anyop::ops {

extern const Kernel mul_avx512_bf16 [[gnu::weak]];
extern const Kernel mul_avx512 [[gnu::weak]];
extern const Kernel mul_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&mul_avx512_bf16, &mul_avx512, &mul_avx2, &kPortable};

extern constinit const Op mul{
    .signature =
        "mul(x: T[..., d], y: T[..., d]) -> (z: T[..., d] over x | y) "
        "where T in f32 | f16 | bf16 | i32 | i64\n"
        "mul(x: T[..., d], y: T[d]) -> (z: T[..., d] over x) "
        "where T in f32 | f16 | bf16 | i32 | i64",
    .gradient = "mul_backward",
    .flops = "size(z)",
    .commutes = "x, y",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
