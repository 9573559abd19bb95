// SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sample/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(grid_sample){.run = Bind<&Run>()};

}  // namespace anyop::ops
