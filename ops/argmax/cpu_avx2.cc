// SPDX-License-Identifier: Apache-2.0
#include "ops/argmax/argmax.h"

namespace anyop::ops {

extern constinit const Kernel argmax_avx2{.name = "cpu_avx2", .run = Bind<&RunArgmax>()};

}  // namespace anyop::ops
