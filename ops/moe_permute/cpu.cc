// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_permute/rows.h"

namespace anyop::ops {

ANYOP_KERNEL(moe_permute_backward){.run = Bind<&PermuteBackward>()};
ANYOP_KERNEL(moe_unpermute){.run = Bind<&Unpermute>()};
ANYOP_KERNEL(moe_unpermute_backward){.workspace = kWorkspace<&PairsBytes>,
                                     .run = Bind<&UnpermuteBackward>()};

}  // namespace anyop::ops
