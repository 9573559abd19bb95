// SPDX-License-Identifier: Apache-2.0
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel paged_attention_avx512{.name = "cpu_avx512",
                                                     .workspace = kWorkspace<&AttentionBytes>,
                                                     .run = Bind<&Run<>>(),
                                                     .probe = kProbe};

}  // namespace anyop::ops
