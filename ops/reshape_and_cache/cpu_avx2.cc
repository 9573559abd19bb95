// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape_and_cache/kernel.h"

namespace anyop::ops {

extern constinit const Kernel reshape_and_cache_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};

}  // namespace anyop::ops
