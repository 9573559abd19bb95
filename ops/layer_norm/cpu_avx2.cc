// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/backward.h"
#include "ops/layer_norm/kernel.h"

namespace anyop::ops {

extern constinit const Kernel layer_norm_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel layer_norm_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
