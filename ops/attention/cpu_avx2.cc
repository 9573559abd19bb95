// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/backward_kernel.h"
#include "ops/attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel attention_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

extern constinit const Kernel attention_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
