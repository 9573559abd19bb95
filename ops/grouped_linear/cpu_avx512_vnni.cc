// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(grouped_linear_int8){.workspace = kWorkspace<&GroupedInt8Bytes>,
                                  .run = Bind<&RunGroupedLinearInt8>()};
ANYOP_KERNEL(grouped_linear_int8_packed){.workspace = kWorkspace<&GroupedInt8PackedBytes>,
                                         .run = Bind<&RunGroupedLinearInt8Packed>()};

}  // namespace anyop::ops
