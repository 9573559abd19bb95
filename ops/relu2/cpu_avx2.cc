// SPDX-License-Identifier: Apache-2.0
#include "ops/relu2/kernel.h"

namespace anyop::ops {

extern constinit const Kernel relu2_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel relu2_backward_avx2{.name = "cpu_avx2", .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
