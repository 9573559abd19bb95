// SPDX-License-Identifier: Apache-2.0
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(paged_attention){.workspace = kWorkspace<&AttentionBytes>, .run = Bind<&Run<>>()};

}  // namespace anyop::ops
