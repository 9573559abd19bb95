// SPDX-License-Identifier: Apache-2.0
#include "ops/argmax/argmax.h"

namespace anyop::ops {

extern constinit const Kernel argmax_avx512{.name = "cpu_avx512", .run = Bind<&RunArgmax>()};

}  // namespace anyop::ops
