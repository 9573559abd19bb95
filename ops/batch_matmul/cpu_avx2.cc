// SPDX-License-Identifier: Apache-2.0
// batch_matmul and batch_matmul_backward with 8 lanes.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

ANYOP_KERNEL(batch_matmul, f32){.name = "cpu_avx2_f32",
                                .when = "T == f32",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<float>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<float>>>()};

ANYOP_KERNEL(batch_matmul, f16){.name = "cpu_avx2_f16",
                                .when = "T == f16",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<F16>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<F16>>>()};

ANYOP_KERNEL(batch_matmul, bf16){.name = "cpu_avx2_bf16",
                                 .when = "T == bf16",
                                 .workspace = kWorkspace<&BatchMatmulBytes<SplitMath>>,
                                 .run = Bind<&RunBatchMatmul<SplitMath>>()};

ANYOP_KERNEL(batch_matmul_backward, f32){
    .name = "cpu_avx2_f32",
    .when = "T == f32",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<float>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<float>>>()};

ANYOP_KERNEL(batch_matmul_backward, f16){
    .name = "cpu_avx2_f16",
    .when = "T == f16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<F16>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<F16>>>()};

ANYOP_KERNEL(batch_matmul_backward, bf16){
    .name = "cpu_avx2_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<SplitMath>>,
    .run = Bind<&RunBatchMatmulBackward<SplitMath>>()};

}  // namespace anyop::ops
