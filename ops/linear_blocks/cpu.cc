// SPDX-License-Identifier: Apache-2.0
// linear_blocks and linear_blocks_packed, with as many lanes as a vector has.

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_blocks){.workspace = kWorkspace<&BlocksBytes>, .run = Bind<&RunLinearBlocks>()};

ANYOP_KERNEL(linear_blocks_packed){.workspace = kWorkspace<&PackedBlocksBytes>,
                                   .run = Bind<&RunLinearBlocksPacked>()};

}  // namespace anyop::ops
