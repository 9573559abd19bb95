// SPDX-License-Identifier: Apache-2.0
#include "ops/add/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(add){.when = "T == bf16", .run = Bind<&Run>()};

}  // namespace anyop::ops
