// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/backward.h"
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(grouped_linear){.workspace = kWorkspace<&GroupedLinearBytes>,
                             .run = Bind<&RunGroupedLinear>()};
ANYOP_KERNEL(grouped_linear_packed){.workspace = kWorkspace<&GroupedLinearPackedBytes>,
                                    .run = Bind<&RunGroupedLinearPacked>()};
ANYOP_KERNEL(grouped_linear_backward){.workspace = kWorkspace<&GroupedBackwardBytes>,
                                      .run = Bind<&RunGroupedLinearBackward>()};
ANYOP_KERNEL(grouped_linear_int8){.workspace = kWorkspace<&GroupedInt8Bytes>,
                                  .run = Bind<&RunGroupedLinearInt8>()};
ANYOP_KERNEL(grouped_linear_int8_packed){.workspace = kWorkspace<&GroupedInt8PackedBytes>,
                                         .run = Bind<&RunGroupedLinearInt8Packed>()};

}  // namespace anyop::ops
