// SPDX-License-Identifier: Apache-2.0
// batch_matmul and batch_matmul_backward with bf16 dot instructions.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

ANYOP_KERNEL(batch_matmul){.name = "cpu_avx512_dot_bf16",
                           .when = "T == bf16",
                           .workspace = kWorkspace<&BatchMatmulBytes<DotMath>>,
                           .run = Bind<&RunBatchMatmul<DotMath>>(),
                           .probe = "b = 1, m = 48, k = 256, n = 64"};

ANYOP_KERNEL(batch_matmul_backward){.name = "cpu_avx512_dot_bf16",
                                    .when = "T == bf16",
                                    .workspace = kWorkspace<&BatchMatmulBackwardBytes<DotMath>>,
                                    .run = Bind<&RunBatchMatmulBackward<DotMath>>(),
                                    .probe = "b = 1, m = 48, k = 256, n = 64"};

}  // namespace anyop::ops
