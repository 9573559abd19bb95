// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_moe/kernels.h"

namespace anyop::ops {

ANYOP_KERNEL(fused_moe){.name = "cpu_avx512_dot_bf16",
                        .when = "T == bf16",
                        .workspace = kWorkspace<&MoeBytes>,
                        .run = Bind<&RunFusedMoe>()};
ANYOP_KERNEL(fused_moe_packed){.name = "cpu_avx512_dot_bf16",
                               .when = "T == bf16",
                               .workspace = kWorkspace<&MoePackedBytes>,
                               .run = Bind<&RunFusedMoePacked>()};

}  // namespace anyop::ops
