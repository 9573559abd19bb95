// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with bf16 dot instructions.

#include "ops/common/gemm/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

ANYOP_KERNEL(linear){.name = "cpu_avx512_dot_bf16",
                     .when = "T == bf16",
                     .workspace = kWorkspace<&LinearBytes<DotMath>>,
                     .run = Bind<&RunLinear<DotMath>>(),
                     .probe = "rows = 8, k = 256, n = 256"};

ANYOP_KERNEL(linear_packed){.name = "cpu_avx512_dot_bf16",
                            .when = "T == bf16",
                            .workspace = kWorkspace<&LinearPackedBytes<DotMath>>,
                            .run = Bind<&RunLinearPacked<DotMath>>(),
                            .probe = "rows = 8, k = 256, k2 = 128, features = 256, n32 = 8"};

ANYOP_KERNEL(linear_backward){.name = "cpu_avx512_dot_bf16",
                              .when = "T == bf16 and U == bf16",
                              .workspace = kWorkspace<&LinearBackwardBytes<DotMath>>,
                              .run = Bind<&RunLinearBackward<DotMath>>(),
                              .probe = "rows = 48, k = 256, n = 64"};

}  // namespace anyop::ops
