// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm/backward.h"
#include "ops/rms_norm/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(rms_norm){.run = Bind<&Run>()};
ANYOP_KERNEL(rms_norm_backward){.workspace = kWorkspace<&BackwardBytes>,
                                .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
