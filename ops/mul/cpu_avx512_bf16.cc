// SPDX-License-Identifier: Apache-2.0
#include "ops/mul/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(mul){.when = "T == bf16", .run = Bind<&Run>()};

}  // namespace anyop::ops
