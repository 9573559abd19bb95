// SPDX-License-Identifier: Apache-2.0
#include "ops/qk_norm_rope/kernel.h"

namespace anyop::ops {

extern constinit const Kernel qk_norm_rope_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
