// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/backward.h"
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(grouped_linear){.name = "cpu_avx512_dot_bf16",
                             .when = "T == bf16",
                             .workspace = kWorkspace<&GroupedLinearBytes>,
                             .run = Bind<&RunGroupedLinear>()};
ANYOP_KERNEL(grouped_linear_packed){.name = "cpu_avx512_dot_bf16",
                                    .when = "T == bf16",
                                    .workspace = kWorkspace<&GroupedLinearPackedBytes>,
                                    .run = Bind<&RunGroupedLinearPacked>()};
ANYOP_KERNEL(grouped_linear_backward){.name = "cpu_avx512_dot_bf16",
                                      .when = "T == bf16",
                                      .workspace = kWorkspace<&GroupedBackwardBytes>,
                                      .run = Bind<&RunGroupedLinearBackward>()};

}  // namespace anyop::ops
