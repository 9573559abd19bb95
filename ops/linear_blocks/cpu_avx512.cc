// SPDX-License-Identifier: Apache-2.0
// linear_blocks and linear_blocks_packed with 16 lanes.

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

extern constinit const Kernel linear_blocks_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&BlocksBytes>, .run = Bind<&RunLinearBlocks>()};

extern constinit const Kernel linear_blocks_packed_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&PackedBlocksBytes>,
    .run = Bind<&RunLinearBlocksPacked>()};

}  // namespace anyop::ops
