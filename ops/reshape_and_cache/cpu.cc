// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape_and_cache/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(reshape_and_cache){.run = Bind<&Run>()};

}  // namespace anyop::ops
