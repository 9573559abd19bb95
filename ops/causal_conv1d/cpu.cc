// SPDX-License-Identifier: Apache-2.0
#include "ops/causal_conv1d/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(causal_conv1d){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};
ANYOP_KERNEL(causal_conv1d_update){.workspace = kWorkspace<&WorkspaceBytes>,
                                   .run = Bind<&RunUpdate>()};

}  // namespace anyop::ops
