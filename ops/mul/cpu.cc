// SPDX-License-Identifier: Apache-2.0
#include "ops/mul/backward.h"
#include "ops/mul/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(mul){.run = Bind<&Run>()};
ANYOP_KERNEL(mul_backward){.workspace = kWorkspace<&BinaryBackwardBytes>,
                           .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
