// SPDX-License-Identifier: Apache-2.0
#include "ops/mul/backward.h"
#include "ops/mul/kernel.h"

namespace anyop::ops {

extern constinit const Kernel mul_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel mul_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BinaryBackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
