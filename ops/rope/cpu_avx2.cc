// SPDX-License-Identifier: Apache-2.0
#include "ops/rope/rope.h"

namespace anyop::ops {

extern constinit const Kernel rope_avx2{.name = "cpu_avx2", .run = Bind<&RunRope>()};
extern constinit const Kernel rope_backward_avx2{.name = "cpu_avx2",
                                                 .run = Bind<&RunRopeBackward>()};

}  // namespace anyop::ops
