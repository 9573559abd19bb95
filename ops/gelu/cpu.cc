// SPDX-License-Identifier: Apache-2.0
#include "ops/gelu/backward.h"
#include "ops/gelu/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(gelu){.run = Bind<&Run>()};
ANYOP_KERNEL(gelu_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
