// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_u4/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_u4){.workspace = kWorkspace<&U4Bytes>, .run = Bind<&RunLinearU4>()};
ANYOP_KERNEL(linear_u4_packed){.workspace = kWorkspace<&U4PackedBytes>,
                               .run = Bind<&RunLinearU4Packed>()};

}  // namespace anyop::ops
