// SPDX-License-Identifier: Apache-2.0
// sigmoid_backward: the gradient of sigmoid, from its result.
//
//   dx = dy * y * (1 - y)
//
// Numerics  f32 for every T, from y as it was rounded; rounded once.
// Source    the derivative of the definition.

#include "ops/sigmoid/backward.h"

namespace anyop::ops {

extern const Kernel sigmoid_backward_avx512 [[gnu::weak]];
extern const Kernel sigmoid_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&sigmoid_backward_avx512, &sigmoid_backward_avx2, &kPortable};

extern constinit const Op sigmoid_backward{
    .signature =
        "sigmoid_backward(dy: T[...], y: T[...]) -> (dx: T[...]? over dy) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(dx)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
