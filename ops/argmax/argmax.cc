// SPDX-License-Identifier: Apache-2.0
// argmax: where the largest element of each row is.
//
//   index[r] = the lowest j with the largest x[r, j]
//
// Numerics  Exact. -0 equals +0. NaN ranks below -inf: it is found only in a row of nothing but
//           NaN, which gives 0.
// Source    Definition. PyTorch and JAX rank NaN highest.
#include "ops/argmax/argmax.h"

namespace anyop::ops {

extern const Kernel argmax_avx512 [[gnu::weak]];
extern const Kernel argmax_avx2 [[gnu::weak]];
constexpr Kernel kCpu{.name = "cpu_portable", .run = Bind<&RunArgmax>()};
constexpr const Kernel* kKernels[] = {&argmax_avx512, &argmax_avx2, &kCpu};

extern constinit const Op argmax{
    .signature = "argmax(x: T[..., d]) -> (index: i64[...]) where T in f32 | f16 | bf16, d >= 1",
    .flops = "size(x)",
    .kernels = kKernels,
    .rowwise = true,
};

}  // namespace anyop::ops
