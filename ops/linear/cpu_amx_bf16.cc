// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with tiles.

#include "ops/common/gemm/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

ANYOP_KERNEL(linear){.when = "T == bf16",
                     .workspace = kWorkspace<&LinearBytes<AmxMath>>,
                     .run = Bind<&RunLinear<AmxMath>>()};

ANYOP_KERNEL(linear_packed){.when = "T == bf16",
                            .workspace = kWorkspace<&LinearPackedBytes<AmxMath>>,
                            .run = Bind<&RunLinearPacked<AmxMath>>()};

ANYOP_KERNEL(linear_backward){.when = "T == bf16 and U == bf16",
                              .workspace = kWorkspace<&LinearBackwardBytes<AmxMath>>,
                              .run = Bind<&RunLinearBackward<AmxMath>>()};

}  // namespace anyop::ops
