// SPDX-License-Identifier: Apache-2.0
#include "ops/sigmoid/backward.h"
#include "ops/sigmoid/kernel.h"

namespace anyop::ops {

extern constinit const Kernel sigmoid_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};
extern constinit const Kernel sigmoid_backward_avx512{.name = "cpu_avx512",
                                                      .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
