// SPDX-License-Identifier: Apache-2.0
#include "ops/add_rms_norm/backward.h"
#include "ops/add_rms_norm/kernel.h"

namespace anyop::ops {

extern constinit const Kernel add_rms_norm_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};
extern constinit const Kernel add_rms_norm_backward_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&BackwardBytes>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
