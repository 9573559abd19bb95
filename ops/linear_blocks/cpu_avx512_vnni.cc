// SPDX-License-Identifier: Apache-2.0
// linear_blocks and linear_blocks_packed with dot products of bytes.

#include "ops/linear_blocks/kernel.h"

namespace anyop::ops {

extern constinit const Kernel linear_blocks_avx512_vnni{.name = "cpu_avx512_vnni",
                                                        .when = "input == 'q8'",
                                                        .workspace = kWorkspace<&QuantizedBytes>,
                                                        .run = Bind<&RunLinearBlocksQuantized>()};

extern constinit const Kernel linear_blocks_packed_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&PackedBlocksBytes>,
    .run = Bind<&RunLinearBlocksPacked>()};

}  // namespace anyop::ops
