// SPDX-License-Identifier: Apache-2.0
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel paged_attention_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

}  // namespace anyop::ops
