// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/backward.h"

namespace anyop::ops {

ANYOP_KERNEL(embedding_backward){.workspace = kWorkspace<&BackwardBytes>,
                                 .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
