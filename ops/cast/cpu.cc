// SPDX-License-Identifier: Apache-2.0
#include "ops/cast/backward.h"

namespace anyop::ops {

ANYOP_KERNEL(cast){.run = Bind<&Run>()};
ANYOP_KERNEL(cast_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
