// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(rms_norm){.when = "T == bf16", .run = Bind<&Run>()};

}  // namespace anyop::ops
