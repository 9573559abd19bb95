// SPDX-License-Identifier: Apache-2.0
// softmax_backward: the gradient of softmax, from its result.
//
//   dx[r, j] = scale * y[r, j] * (dy[r, j] - sum_l dy[r, l] * y[r, l])
//
// Numerics  f32 for every T, from y as it was rounded; rounded once.
// Source    the derivative of the definition.

#include "ops/softmax/backward.h"

namespace anyop::ops {

extern const Kernel softmax_backward_avx512 [[gnu::weak]];
extern const Kernel softmax_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&softmax_backward_avx512, &softmax_backward_avx2, &kPortable};

extern constinit const Op softmax_backward{
    .signature =
        "softmax_backward(dy: T[..., d], y: T[..., d], scale: float) "
        "-> (dx: T[..., d]? over dy) where T in f32 | f16 | bf16, d >= 1",
    .flops = "5 * size(dx)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
