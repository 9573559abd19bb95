// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with 8 lanes.

#include "ops/common/gemm/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

ANYOP_KERNEL(linear, f32){.name = "cpu_avx2_f32",
                          .when = "T == f32",
                          .workspace = kWorkspace<&LinearBytes<PairMath<float>>>,
                          .run = Bind<&RunLinear<PairMath<float>>>()};

ANYOP_KERNEL(linear_packed, f32){.name = "cpu_avx2_f32",
                                 .when = "T == f32",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<float>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<float>>>()};

ANYOP_KERNEL(linear, f16){.name = "cpu_avx2_f16",
                          .when = "T == f16",
                          .workspace = kWorkspace<&LinearBytes<PairMath<F16>>>,
                          .run = Bind<&RunLinear<PairMath<F16>>>()};

ANYOP_KERNEL(linear_packed, f16){.name = "cpu_avx2_f16",
                                 .when = "T == f16",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<F16>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<F16>>>()};

ANYOP_KERNEL(linear, bf16){.name = "cpu_avx2_bf16",
                           .when = "T == bf16",
                           .workspace = kWorkspace<&LinearBytes<SplitMath>>,
                           .run = Bind<&RunLinear<SplitMath>>()};

ANYOP_KERNEL(linear_packed, bf16){.name = "cpu_avx2_bf16",
                                  .when = "T == bf16",
                                  .workspace = kWorkspace<&LinearPackedBytes<SplitMath>>,
                                  .run = Bind<&RunLinearPacked<SplitMath>>()};

ANYOP_KERNEL(linear_backward, f32){.name = "cpu_avx2_f32",
                                   .when = "T == f32",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<float>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<float>>>()};

ANYOP_KERNEL(linear_backward, f16){.name = "cpu_avx2_f16",
                                   .when = "T == f16",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<F16>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<F16>>>()};

ANYOP_KERNEL(linear_backward, bf16){.name = "cpu_avx2_bf16",
                                    .when = "T == bf16",
                                    .workspace = kWorkspace<&LinearBackwardBytes<SplitMath>>,
                                    .run = Bind<&RunLinearBackward<SplitMath>>()};

}  // namespace anyop::ops
