// SPDX-License-Identifier: Apache-2.0
#include "ops/top_k/top_k.h"

namespace anyop::ops {

ANYOP_KERNEL(top_k){.workspace = kWorkspace<&TopKBytes>, .run = Bind<&RunTopK>()};

}  // namespace anyop::ops
