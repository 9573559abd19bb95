// SPDX-License-Identifier: Apache-2.0
// linear and linear_packed with bf16 dot instructions.

#include "linear/linear.h"

namespace anyop::ops {

extern constinit const Kernel linear_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                .when = "T == bf16",
                                                .workspace = ANYOP_LINEAR_WORKSPACE(2),
                                                .run = Bind<&RunLinear<DotMath>>(),
                                                .probe = "rows = 8, k = 256, n = 256"};

extern constinit const Kernel linear_packed_avx512_dot{
    .name = "cpu_avx512_dot_bf16",
    .when = "T == bf16",
    .workspace = ANYOP_LINEAR_PACKED_WORKSPACE(2),
    .run = Bind<&RunLinearPacked<DotMath>>(),
    .probe = "rows = 8, k = 256, k2 = 128, features = 256, n32 = 8"};

}  // namespace anyop::ops
