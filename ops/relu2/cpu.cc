// SPDX-License-Identifier: Apache-2.0
#include "ops/relu2/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(relu2){.run = Bind<&Run>()};
ANYOP_KERNEL(relu2_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
