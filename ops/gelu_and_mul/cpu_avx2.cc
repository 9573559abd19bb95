// SPDX-License-Identifier: Apache-2.0
#include "ops/gelu_and_mul/backward.h"
#include "ops/gelu_and_mul/kernel.h"

namespace anyop::ops {

extern constinit const Kernel gelu_and_mul_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};
extern constinit const Kernel gelu_and_mul_backward_avx2{.name = "cpu_avx2",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
