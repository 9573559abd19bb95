// SPDX-License-Identifier: Apache-2.0
#include "ops/add/kernel.h"

namespace anyop::ops {

extern constinit const Kernel add_avx512{.name = "cpu_avx512", .run = Bind<&Run>()};

}  // namespace anyop::ops
