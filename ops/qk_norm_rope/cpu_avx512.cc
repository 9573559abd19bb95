// SPDX-License-Identifier: Apache-2.0
#include "ops/qk_norm_rope/kernel.h"

namespace anyop::ops {

extern constinit const Kernel qk_norm_rope_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
