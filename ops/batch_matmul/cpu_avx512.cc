// SPDX-License-Identifier: Apache-2.0
// batch_matmul and batch_matmul_backward with 16 lanes. Whether splitting bf16 into two FMAs beats
// the dot instruction depends on the machine, so both state a size to measure at.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

ANYOP_KERNEL(batch_matmul, f32){.name = "cpu_avx512_f32",
                                .when = "T == f32",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<float>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<float>>>()};

ANYOP_KERNEL(batch_matmul, f16){.name = "cpu_avx512_f16",
                                .when = "T == f16",
                                .workspace = kWorkspace<&BatchMatmulBytes<PairMath<F16>>>,
                                .run = Bind<&RunBatchMatmul<PairMath<F16>>>()};

ANYOP_KERNEL(batch_matmul, split){.name = "cpu_avx512_split_bf16",
                                  .when = "T == bf16",
                                  .workspace = kWorkspace<&BatchMatmulBytes<SplitMath>>,
                                  .run = Bind<&RunBatchMatmul<SplitMath>>(),
                                  .probe = "b = 1, m = 48, k = 256, n = 64"};

ANYOP_KERNEL(batch_matmul_backward, f32){
    .name = "cpu_avx512_f32",
    .when = "T == f32",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<float>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<float>>>()};

ANYOP_KERNEL(batch_matmul_backward, f16){
    .name = "cpu_avx512_f16",
    .when = "T == f16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<PairMath<F16>>>,
    .run = Bind<&RunBatchMatmulBackward<PairMath<F16>>>()};

ANYOP_KERNEL(batch_matmul_backward, split){
    .name = "cpu_avx512_split_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<SplitMath>>,
    .run = Bind<&RunBatchMatmulBackward<SplitMath>>(),
    .probe = "b = 1, m = 48, k = 256, n = 64"};

}  // namespace anyop::ops
