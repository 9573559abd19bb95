// SPDX-License-Identifier: Apache-2.0
#include "ops/gelu_and_mul/backward.h"
#include "ops/gelu_and_mul/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(gelu_and_mul){.run = Bind<&Run>()};
ANYOP_KERNEL(gelu_and_mul_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
