// SPDX-License-Identifier: Apache-2.0
#include "ops/add_rms_norm/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(add_rms_norm){.when = "T == bf16", .run = Bind<&Run>()};

}  // namespace anyop::ops
