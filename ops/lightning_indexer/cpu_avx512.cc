// SPDX-License-Identifier: Apache-2.0
#include "ops/lightning_indexer/kernel.h"

namespace anyop::ops {

extern constinit const Kernel lightning_indexer_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&IndexerBytes>, .run = Bind<&Run<FloatRows>>()};

extern constinit const Kernel lightning_indexer_avx512_fma{
    .name = "cpu_avx512_fma_bf16",
    .when = "T != f32 and T != f16",
    .needs = ANYOP_NEEDS ANYOP_WHERE_DOTS_ARE_SLOW,
    .workspace = kWorkspace<&IndexerBytes>,
    .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
