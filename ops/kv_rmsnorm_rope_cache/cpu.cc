// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_rmsnorm_rope_cache/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(kv_rmsnorm_rope_cache){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
