// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax/backward.h"
#include "ops/softmax/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(softmax){.run = Bind<&Run>()};
ANYOP_KERNEL(softmax_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
