// SPDX-License-Identifier: Apache-2.0
// linear_blocks and linear_blocks_packed with dot products of bytes.

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_blocks){.when = "input == 'q8'",
                            .workspace = kWorkspace<&QuantizedBytes>,
                            .run = Bind<&RunLinearBlocksQuantized>()};

ANYOP_KERNEL(linear_blocks_packed){.workspace = kWorkspace<&PackedBlocksBytes>,
                                   .run = Bind<&RunLinearBlocksPacked>()};

}  // namespace anyop::ops
