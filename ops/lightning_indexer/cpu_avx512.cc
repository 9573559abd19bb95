// SPDX-License-Identifier: Apache-2.0
#include "ops/lightning_indexer/kernel.h"

namespace anyop::ops {

extern constinit const Kernel lightning_indexer_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&IndexerBytes>, .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
