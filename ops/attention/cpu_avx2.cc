// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel attention_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace, .run = Bind<&Run>()};

}  // namespace anyop::ops
