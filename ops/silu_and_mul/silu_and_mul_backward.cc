// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_backward: the gradient of silu_and_mul.
//
//   dx[r, j]     = dy[r, j] * u * s * (1 + g * (1 - s))     g = x[r, j], u = x[r, d + j]
//   dx[r, d + j] = dy[r, j] * g * s                         s = 1 / (1 + exp(-g))
//
// Numerics  f32 for every T, rounded once. 1 - s keeps its bits where s is near 1.
// Source    the derivative of Shazeer 2020, arXiv:2002.05202.

#include "ops/silu_and_mul/backward.h"

namespace anyop::ops {

extern const Kernel silu_and_mul_backward_avx512 [[gnu::weak]];
extern const Kernel silu_and_mul_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&silu_and_mul_backward_avx512, &silu_and_mul_backward_avx2,
                                      &kPortable};

extern constinit const Op silu_and_mul_backward{
    .signature =
        "silu_and_mul_backward(dy: T[..., d], x: T[..., 2*d]) -> (dx: T[..., 2*d]?) "
        "where T in f32 | f16 | bf16",
    .flops = "20 * size(dy)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
