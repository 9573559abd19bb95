// SPDX-License-Identifier: Apache-2.0
#include "ops/qk_norm_rope/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(qk_norm_rope){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
