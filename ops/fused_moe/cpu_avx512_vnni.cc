// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_moe/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(fused_moe_int8){.workspace = kWorkspace<&MoeInt8Bytes>,
                             .run = Bind<&RunFusedMoeInt8>()};
ANYOP_KERNEL(fused_moe_int8_packed){.workspace = kWorkspace<&MoeInt8PackedBytes>,
                                    .run = Bind<&RunFusedMoeInt8Packed>()};

}  // namespace anyop::ops
