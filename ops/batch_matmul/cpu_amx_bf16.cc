// SPDX-License-Identifier: Apache-2.0
// batch_matmul and batch_matmul_backward with tiles.

#include "ops/batch_matmul/batch_matmul.h"

namespace anyop::ops {

ANYOP_KERNEL(batch_matmul){.when = "T == bf16",
                           .workspace = kWorkspace<&BatchMatmulBytes<AmxMath>>,
                           .run = Bind<&RunBatchMatmul<AmxMath>>()};

ANYOP_KERNEL(batch_matmul_backward){.when = "T == bf16",
                                    .workspace = kWorkspace<&BatchMatmulBackwardBytes<AmxMath>>,
                                    .run = Bind<&RunBatchMatmulBackward<AmxMath>>()};

}  // namespace anyop::ops
