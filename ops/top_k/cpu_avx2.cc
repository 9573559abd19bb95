// SPDX-License-Identifier: Apache-2.0
#include "ops/top_k/top_k.h"

namespace anyop::ops {

extern constinit const Kernel top_k_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&TopKBytes>, .run = Bind<&RunTopK>()};

}  // namespace anyop::ops
