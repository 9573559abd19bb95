// SPDX-License-Identifier: Apache-2.0
#include "ops/argmax/argmax.h"

namespace anyop::ops {

ANYOP_KERNEL(argmax){.run = Bind<&RunArgmax>()};

}  // namespace anyop::ops
