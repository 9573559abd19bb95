// SPDX-License-Identifier: Apache-2.0
#include "ops/causal_conv1d/kernel.h"

namespace anyop::ops {

extern constinit const Kernel causal_conv1d_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};
extern constinit const Kernel causal_conv1d_update_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&RunUpdate>()};

}  // namespace anyop::ops
