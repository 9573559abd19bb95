// SPDX-License-Identifier: Apache-2.0
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel paged_attention_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                         .when = "T == bf16",
                                                         .workspace = kWorkspace<&AttentionBytes>,
                                                         .run = Bind<&Run>(),
                                                         .probe = kProbe};

}  // namespace anyop::ops
