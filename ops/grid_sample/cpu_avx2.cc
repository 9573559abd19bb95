// SPDX-License-Identifier: Apache-2.0
#include "ops/grid_sample/kernel.h"

namespace anyop::ops {

extern constinit const Kernel grid_sample_avx2{.name = "cpu_avx2", .run = Bind<&Run>()};

}  // namespace anyop::ops
