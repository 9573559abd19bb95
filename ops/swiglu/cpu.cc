// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu/backward.h"
#include "ops/swiglu/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(swiglu){.run = Bind<&Run>()};
ANYOP_KERNEL(swiglu_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
