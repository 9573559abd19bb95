// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel attention_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                   .when = "T == bf16",
                                                   .workspace = kWorkspace<&AttentionBytes>,
                                                   .run = Bind<&Run<>>(),
                                                   .probe = kProbe};

extern constinit const Kernel attention_amx{.name = "cpu_avx512_amx_bf16",
                                            .when = "T == bf16",
                                            .needs = ANYOP_NEEDS ANYOP_AND_TILES,
                                            .workspace = kWorkspace<&AttentionBytes>,
                                            .run = Bind<&Run<true>>()};

}  // namespace anyop::ops
