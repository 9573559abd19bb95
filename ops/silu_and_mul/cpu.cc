// SPDX-License-Identifier: Apache-2.0
#include "ops/silu_and_mul/backward.h"
#include "ops/silu_and_mul/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(silu_and_mul){.run = Bind<&Run>()};
ANYOP_KERNEL(silu_and_mul_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
