// SPDX-License-Identifier: Apache-2.0
#include "ops/mla_decode/kernel.h"

namespace anyop::ops {

extern constinit const Kernel mla_decode_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&MlaBytes>, .run = Bind<&Run<FloatRows>>()};

extern constinit const Kernel mla_decode_avx512_fma{.name = "cpu_avx512_fma_bf16",
                                                    .when = "T == bf16",
                                                    .needs = ANYOP_NEEDS ANYOP_WHERE_DOTS_ARE_SLOW,
                                                    .workspace = kWorkspace<&MlaBytes>,
                                                    .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
