// SPDX-License-Identifier: Apache-2.0
#include "ops/lightning_indexer/kernel.h"

namespace anyop::ops {

extern constinit const Kernel lightning_indexer_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                           .when = "T != f32 and T != f16",
                                                           .workspace = kWorkspace<&IndexerBytes>,
                                                           .run = Bind<&Run<PairRows>>()};

}  // namespace anyop::ops
