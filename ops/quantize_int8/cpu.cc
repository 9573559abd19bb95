// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize_int8/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(quantize_int8){.run = Bind<&RunQuantizeInt8>()};
ANYOP_KERNEL(quantize_int8_dynamic){.run = Bind<&RunQuantizeInt8Dynamic>()};
ANYOP_KERNEL(dequantize_int8){.run = Bind<&RunDequantizeInt8>()};

}  // namespace anyop::ops
