// SPDX-License-Identifier: Apache-2.0
#include "ops/topk_router/backward.h"
#include "ops/topk_router/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(topk_router){.workspace = kWorkspace<&RouterBytes<3>>, .run = Bind<&Run>()};
ANYOP_KERNEL(topk_router_backward){.workspace = kWorkspace<&RouterBytes<2>>,
                                   .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
