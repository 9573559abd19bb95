// SPDX-License-Identifier: Apache-2.0
#include "ops/merge_attention_states/kernel.h"

namespace anyop::ops {

extern constinit const Kernel merge_attention_states_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&MergeBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
