// SPDX-License-Identifier: Apache-2.0
#include "ops/add_rms_norm/kernel.h"

namespace anyop::ops {

extern constinit const Kernel add_rms_norm_avx512_bf16{
    .name = "cpu_avx512_bf16", .when = "T == bf16", .run = Bind<&Run>()};

}  // namespace anyop::ops
