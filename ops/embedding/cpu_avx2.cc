// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/backward.h"

namespace anyop::ops {

extern constinit const Kernel embedding_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
