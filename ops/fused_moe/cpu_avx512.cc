// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_moe/kernels.h"

namespace anyop::ops {

extern constinit const Kernel fused_moe_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&MoeBytes>, .run = Bind<&RunFusedMoe>()};
extern constinit const Kernel fused_moe_packed_avx512{.name = "cpu_avx512",
                                                      .workspace = kWorkspace<&MoePackedBytes>,
                                                      .run = Bind<&RunFusedMoePacked>()};
extern constinit const Kernel fused_moe_int8_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&MoeInt8Bytes>, .run = Bind<&RunFusedMoeInt8>()};
extern constinit const Kernel fused_moe_int8_packed_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&MoeInt8PackedBytes>,
    .run = Bind<&RunFusedMoeInt8Packed>()};

}  // namespace anyop::ops
