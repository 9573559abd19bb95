// SPDX-License-Identifier: Apache-2.0
#include "ops/paged_attention/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(paged_attention, amx){.name = "cpu_avx512_amx_bf16",
                                   .when = "T == bf16",
                                   .needs = ANYOP_NEEDS ANYOP_AND_TILES,
                                   .workspace = kWorkspace<&AttentionBytes>,
                                   .run = Bind<&Run<true>>()};

ANYOP_KERNEL(paged_attention){.name = "cpu_avx512_dot_bf16",
                              .when = "T == bf16",
                              .workspace = kWorkspace<&AttentionBytes>,
                              .run = Bind<&Run<>>(),
                              .probe = kProbe};

}  // namespace anyop::ops
