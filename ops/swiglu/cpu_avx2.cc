// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu/backward.h"
#include "ops/swiglu/kernel.h"

namespace anyop::ops {

extern constinit const Kernel swiglu_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel swiglu_backward_avx2{.name = "cpu_avx2", .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
