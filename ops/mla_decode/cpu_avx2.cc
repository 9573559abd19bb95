// SPDX-License-Identifier: Apache-2.0
#include "ops/mla_decode/kernel.h"

namespace anyop::ops {

extern constinit const Kernel mla_decode_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&MlaBytes>, .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
