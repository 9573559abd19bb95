// SPDX-License-Identifier: Apache-2.0
// relu2_backward: the gradient of relu2.
//
//   dx = dy * 2 * max(x, 0)
//
// Numerics  f32 for every T, rounded once.
// Source    the derivative of So et al. 2021, arXiv:2109.08668.

#include "ops/relu2/kernel.h"

namespace anyop::ops {

extern const Kernel relu2_backward_avx512 [[gnu::weak]];
extern const Kernel relu2_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&relu2_backward_avx512, &relu2_backward_avx2, &kPortable};

extern constinit const Op relu2_backward{
    .signature =
        "relu2_backward(dy: T[...], x: T[...]) -> (dx: T[...]? over dy) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(dy)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
