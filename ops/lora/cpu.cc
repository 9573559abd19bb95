// SPDX-License-Identifier: Apache-2.0
#include "ops/lora/expand.h"
#include "ops/lora/shrink.h"

namespace anyop::ops {

ANYOP_KERNEL(lora_shrink){.workspace = kWorkspace<&ShrinkBytes>, .run = Bind<&RunShrink>()};
ANYOP_KERNEL(lora_expand){.workspace = kWorkspace<&ExpandBytes>, .run = Bind<&RunExpand>()};

}  // namespace anyop::ops
