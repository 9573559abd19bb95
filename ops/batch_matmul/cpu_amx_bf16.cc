// SPDX-License-Identifier: Apache-2.0
// batch_matmul and batch_matmul_backward with tiles.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

extern constinit const Kernel batch_matmul_amx{.name = "cpu_amx_bf16",
                                               .when = "T == bf16",
                                               .workspace = kWorkspace<&BatchMatmulBytes<AmxMath>>,
                                               .run = Bind<&RunBatchMatmul<AmxMath>>()};

extern constinit const Kernel batch_matmul_backward_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&BatchMatmulBackwardBytes<AmxMath>>,
    .run = Bind<&RunBatchMatmulBackward<AmxMath>>()};

}  // namespace anyop::ops
