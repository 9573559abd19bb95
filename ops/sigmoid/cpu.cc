// SPDX-License-Identifier: Apache-2.0
#include "ops/sigmoid/backward.h"
#include "ops/sigmoid/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(sigmoid){.run = Bind<&Run>()};
ANYOP_KERNEL(sigmoid_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
