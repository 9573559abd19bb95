// SPDX-License-Identifier: Apache-2.0
// linear_blocks and linear_blocks_packed with 8 lanes.

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

extern constinit const Kernel linear_blocks_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&BlocksBytes>, .run = Bind<&RunLinearBlocks>()};

extern constinit const Kernel linear_blocks_packed_avx2{.name = "cpu_avx2",
                                                        .workspace = kWorkspace<&PackedBlocksBytes>,
                                                        .run = Bind<&RunLinearBlocksPacked>()};

}  // namespace anyop::ops
