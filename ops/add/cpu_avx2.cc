// SPDX-License-Identifier: Apache-2.0
#include "ops/add/backward.h"
#include "ops/add/kernel.h"

namespace anyop::ops {

extern constinit const Kernel add_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel add_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BinaryBackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
