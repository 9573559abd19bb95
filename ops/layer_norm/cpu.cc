// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/backward.h"
#include "ops/layer_norm/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(layer_norm){.run = Bind<&Run>()};
ANYOP_KERNEL(layer_norm_backward){.workspace = kWorkspace<&BackwardBytes>,
                                  .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
