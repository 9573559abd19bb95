// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/backward.h"

namespace anyop::ops {

extern constinit const Kernel embedding_backward_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
