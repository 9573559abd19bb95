// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_moe/kernels.h"

namespace anyop::ops {

extern constinit const Kernel fused_moe_amx{.name = "cpu_amx_bf16",
                                            .when = "T == bf16",
                                            .workspace = kWorkspace<&MoeBytes>,
                                            .run = Bind<&RunFusedMoe>()};
extern constinit const Kernel fused_moe_packed_amx{.name = "cpu_amx_bf16",
                                                   .when = "T == bf16",
                                                   .workspace = kWorkspace<&MoePackedBytes>,
                                                   .run = Bind<&RunFusedMoePacked>()};

}  // namespace anyop::ops
