// SPDX-License-Identifier: Apache-2.0
#include "ops/merge_attention_states/kernel.h"

namespace anyop::ops {

extern constinit const Kernel merge_attention_states_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&MergeBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
