// SPDX-License-Identifier: Apache-2.0
#include "ops/gelu/backward.h"
#include "ops/gelu/kernel.h"

namespace anyop::ops {

extern constinit const Kernel gelu_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel gelu_backward_avx2{.name = "cpu_avx2", .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
