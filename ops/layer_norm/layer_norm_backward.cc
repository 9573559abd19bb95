// SPDX-License-Identifier: Apache-2.0
// layer_norm_backward: the gradient of layer_norm.
//
//   dx[r, j]   = s(r) * (g[r, j] - mean_l(g[r, l]) - z[r, j] * mean_l(g[r, l] * z[r, l]))
//   dweight[j] = sum_r dy[r, j] * z[r, j]
//   dbias[j]   = sum_r dy[r, j]
//
//   g[r, j] = dy[r, j] * weight[j]     z, s as in layer_norm
//
// Numerics  f32 for every T, rounded once. Sums of rows in rising order, in chunks of 32.
// Source    the derivative of Ba, Kiros and Hinton 2016, arXiv:1607.06450.

#include "ops/layer_norm/backward.h"

namespace anyop::ops {

extern const Kernel layer_norm_backward_avx512 [[gnu::weak]];
extern const Kernel layer_norm_backward_avx2 [[gnu::weak]];
constexpr Kernel kPortable{
    .name = "cpu_portable", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};
constexpr const Kernel* kKernels[] = {&layer_norm_backward_avx512, &layer_norm_backward_avx2,
                                      &kPortable};

extern constinit const Op layer_norm_backward{
    .signature =
        "layer_norm_backward(dy: T[..., d], x: T[..., d], weight: T[d]?, eps: float) "
        "-> (dx: T[..., d]?, dweight: T[d]?, dbias: T[d]?) "
        "where T in f32 | f16 | bf16, d >= 1, eps >= 0",
    .flops = "20 * size(x)",
    .kernels = kKernels,
};

}  // namespace anyop::ops
