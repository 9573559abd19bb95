// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/backward_kernel.h"
#include "ops/attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel attention_avx512{.name = "cpu_avx512",
                                               .workspace = kWorkspace<&AttentionBytes>,
                                               .run = Bind<&Run<>>(),
                                               .probe = kProbe};

extern constinit const Kernel attention_backward_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
