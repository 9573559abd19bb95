// SPDX-License-Identifier: Apache-2.0
#include "ops/cast/kernel.h"

namespace anyop::ops {

extern constinit const Kernel cast_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};

}  // namespace anyop::ops
