// SPDX-License-Identifier: Apache-2.0
#include "ops/rope/rope.h"

namespace anyop::ops {

ANYOP_KERNEL(rope){.when = "T == bf16", .run = Bind<&RunRope>()};
ANYOP_KERNEL(rope_backward){.when = "T == bf16", .run = Bind<&RunRopeBackward>()};

}  // namespace anyop::ops
