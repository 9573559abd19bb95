// SPDX-License-Identifier: Apache-2.0
#include "ops/mrope/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(mrope){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
