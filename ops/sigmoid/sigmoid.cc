// SPDX-License-Identifier: Apache-2.0
// sigmoid: the logistic function, element by element.
//
//   y = 1 / (1 + exp(-x))
//
// Numerics  f32 for every T, rounded once. No finite x overflows; -inf gives 0, +inf gives 1, NaN
//           gives NaN. Below x = -87 the f32 error is at most 2^-126.
// Source    the definition.

#include "ops/sigmoid/kernel.h"

namespace anyop::ops {

extern const Kernel sigmoid_avx512 [[gnu::weak]];
extern const Kernel sigmoid_avx2 [[gnu::weak]];
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&sigmoid_avx512, &sigmoid_avx2, &kPortable};

extern constinit const Op sigmoid{
    .signature = "sigmoid(x: T[...]) -> (y: T[...] over x) where T in f32 | f16 | bf16",
    .gradient = "sigmoid_backward",
    .flops = "12 * size(y)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
