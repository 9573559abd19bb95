// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax/backward.h"
#include "ops/softmax/kernel.h"

namespace anyop::ops {

extern constinit const Kernel softmax_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};
extern constinit const Kernel softmax_backward_avx512{.name = "cpu_avx512",
                                                      .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
