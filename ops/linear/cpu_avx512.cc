// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with 16 lanes. Whether splitting bf16 into two FMAs
// beats the dot instruction depends on the machine, so both state a size to measure at.

#include "ops/common/gemm/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

ANYOP_KERNEL(linear, f32){.name = "cpu_avx512_f32",
                          .when = "T == f32",
                          .workspace = kWorkspace<&LinearBytes<PairMath<float>>>,
                          .run = Bind<&RunLinear<PairMath<float>>>()};

ANYOP_KERNEL(linear_packed, f32){.name = "cpu_avx512_f32",
                                 .when = "T == f32",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<float>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<float>>>()};

ANYOP_KERNEL(linear, f16){.name = "cpu_avx512_f16",
                          .when = "T == f16",
                          .workspace = kWorkspace<&LinearBytes<PairMath<F16>>>,
                          .run = Bind<&RunLinear<PairMath<F16>>>()};

ANYOP_KERNEL(linear_packed, f16){.name = "cpu_avx512_f16",
                                 .when = "T == f16",
                                 .workspace = kWorkspace<&LinearPackedBytes<PairMath<F16>>>,
                                 .run = Bind<&RunLinearPacked<PairMath<F16>>>()};

ANYOP_KERNEL(linear, split){.name = "cpu_avx512_split_bf16",
                            .when = "T == bf16",
                            .workspace = kWorkspace<&LinearBytes<SplitMath>>,
                            .run = Bind<&RunLinear<SplitMath>>(),
                            .probe = "rows = 8, k = 256, n = 256"};

ANYOP_KERNEL(linear_packed, split){.name = "cpu_avx512_split_bf16",
                                   .when = "T == bf16",
                                   .workspace = kWorkspace<&LinearPackedBytes<SplitMath>>,
                                   .run = Bind<&RunLinearPacked<SplitMath>>(),
                                   .probe = "rows = 8, k = 256, k2 = 128, features = 256, n32 = 8"};

ANYOP_KERNEL(linear_backward, f32){.name = "cpu_avx512_f32",
                                   .when = "T == f32",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<float>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<float>>>()};

ANYOP_KERNEL(linear_backward, f16){.name = "cpu_avx512_f16",
                                   .when = "T == f16",
                                   .workspace = kWorkspace<&LinearBackwardBytes<PairMath<F16>>>,
                                   .run = Bind<&RunLinearBackward<PairMath<F16>>>()};

ANYOP_KERNEL(linear_backward, split){.name = "cpu_avx512_split_bf16",
                                     .when = "T == bf16",
                                     .workspace = kWorkspace<&LinearBackwardBytes<SplitMath>>,
                                     .run = Bind<&RunLinearBackward<SplitMath>>(),
                                     .probe = "rows = 48, k = 256, n = 64"};

}  // namespace anyop::ops
