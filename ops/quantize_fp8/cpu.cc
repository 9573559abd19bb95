// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize_fp8/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(quantize_fp8){.run = Bind<&RunQuantizeFp8>()};
ANYOP_KERNEL(quantize_fp8_dynamic){.run = Bind<&RunQuantizeFp8Dynamic>()};

}  // namespace anyop::ops
