// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/backward_kernel.h"
#include "ops/attention/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(attention){.workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

ANYOP_KERNEL(attention_backward){.workspace = kWorkspace<&BackwardBytes>,
                                 .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
