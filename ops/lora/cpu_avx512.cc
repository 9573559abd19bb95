// SPDX-License-Identifier: Apache-2.0
#include "ops/lora/expand.h"
#include "ops/lora/shrink.h"

namespace anyop::ops {

extern constinit const Kernel lora_shrink_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&ShrinkBytes>, .run = Bind<&RunShrink>()};
extern constinit const Kernel lora_expand_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&ExpandBytes>, .run = Bind<&RunExpand>()};

}  // namespace anyop::ops
