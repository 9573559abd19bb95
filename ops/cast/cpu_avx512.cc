// SPDX-License-Identifier: Apache-2.0
#include "ops/cast/backward.h"

namespace anyop::ops {

extern constinit const Kernel cast_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};
extern constinit const Kernel cast_backward_avx512{.name = "cpu_avx512",
                                                   .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
