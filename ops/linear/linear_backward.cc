// SPDX-License-Identifier: Apache-2.0
// linear_backward: the gradients of a dense layer without an activation.
//
//   dx[i, l] = sum_j dy[i, j] * weight[j, l]
//   dweight[j, l] = sum_i dy[i, j] * x[i, l]
//   dbias[j] = sum_i dy[i, j]
//
//   dy          rows may coincide (stride 0)
//   activation  linear with another one has no gradient
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. Sums are added in
//           ascending order in chunks of a fixed size, so they do not depend on threads. A sum
//           over no terms is 0.
// Source    definition.

#include "ops/common/gemm/backward.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_backward, f32){.name = "cpu_portable_f32",
                                   .when = "T == f32",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<float>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<float>>>()};
ANYOP_KERNEL(linear_backward, f16){.name = "cpu_portable_f16",
                                   .when = "T == f16",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<F16>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<F16>>>()};
ANYOP_KERNEL(linear_backward, bf16){.name = "cpu_portable_bf16",
                                    .when = "T == bf16",
                                    .workspace = kWorkspace<&LinearBackwardBytes<SplitMath>>,
                                    .run = Bind<&RunLinearBackward<SplitMath>>()};

extern constinit const Op linear_backward{
    .signature =
        "linear_backward(dy: U[..., n], x: T[..., k], weight: T[n, k], activation: 'none') "
        "-> (dx: T[..., k]?, dweight: T[n, k]?, dbias: T[n]?) "
        "where T in f32 | f16 | bf16, U in f32 | f16 | bf16",
    .flops = "4 * rows(x) * n * k",
};

}  // namespace anyop::ops
