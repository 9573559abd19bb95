// SPDX-License-Identifier: Apache-2.0
#include "ops/add/backward.h"
#include "ops/add/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(add){.run = Bind<&Run>()};
ANYOP_KERNEL(add_backward){.workspace = kWorkspace<&BinaryBackwardBytes>,
                           .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
