// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_permute/rows.h"

namespace anyop::ops {

extern constinit const Kernel moe_permute_backward_avx2{.name = "cpu_avx2",
                                                        .run = Bind<&PermuteBackward>()};
extern constinit const Kernel moe_unpermute_avx2{.name = "cpu_avx2", .run = Bind<&Unpermute>()};
extern constinit const Kernel moe_unpermute_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&PairsBytes>, .run = Bind<&UnpermuteBackward>()};

}  // namespace anyop::ops
