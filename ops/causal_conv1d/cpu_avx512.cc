// SPDX-License-Identifier: Apache-2.0
#include "ops/causal_conv1d/kernel.h"

namespace anyop::ops {

extern constinit const Kernel causal_conv1d_avx512{
    .name = "cpu_avx512", .workspace = ANYOP_CAUSAL_CONV1D_WORKSPACE, .run = Bind<&Run>()};
extern constinit const Kernel causal_conv1d_update_avx512{
    .name = "cpu_avx512", .workspace = ANYOP_CAUSAL_CONV1D_WORKSPACE, .run = Bind<&RunUpdate>()};

}  // namespace anyop::ops
