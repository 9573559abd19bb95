// SPDX-License-Identifier: Apache-2.0
#include "ops/add/backward.h"
#include "ops/add/kernel.h"

namespace anyop::ops {

extern constinit const Kernel add_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};
extern constinit const Kernel add_backward_avx512{.name = "cpu_avx512",
                                                  .workspace = kWorkspace<&BinaryBackwardBytes>,
                                                  .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
