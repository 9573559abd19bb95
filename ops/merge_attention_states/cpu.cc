// SPDX-License-Identifier: Apache-2.0
#include "ops/merge_attention_states/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(merge_attention_states){.workspace = kWorkspace<&MergeBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
