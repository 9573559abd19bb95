// SPDX-License-Identifier: Apache-2.0
#include "ops/mla_decode/kernel.h"

namespace anyop::ops {

extern constinit const Kernel mla_decode_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                    .when = "T == bf16",
                                                    .workspace = kWorkspace<&MlaBytes>,
                                                    .run = Bind<&Run<PairRows>>()};

}  // namespace anyop::ops
