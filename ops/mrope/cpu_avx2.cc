// SPDX-License-Identifier: Apache-2.0
#include "ops/mrope/kernel.h"

namespace anyop::ops {

extern constinit const Kernel mrope_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
