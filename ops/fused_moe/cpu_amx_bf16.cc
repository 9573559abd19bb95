// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_moe/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(fused_moe){
    .when = "T == bf16", .workspace = kWorkspace<&MoeBytes>, .run = Bind<&RunFusedMoe>()};
ANYOP_KERNEL(fused_moe_packed){.when = "T == bf16",
                               .workspace = kWorkspace<&MoePackedBytes>,
                               .run = Bind<&RunFusedMoePacked>()};

}  // namespace anyop::ops
