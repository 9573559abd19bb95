// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize_int8/kernel.h"

namespace anyop::ops {

extern constinit const Kernel quantize_int8_avx2{.name = "cpu_avx2",
                                                 .run = Bind<&RunQuantizeInt8>()};
extern constinit const Kernel quantize_int8_dynamic_avx2{.name = "cpu_avx2",
                                                         .run = Bind<&RunQuantizeInt8Dynamic>()};
extern constinit const Kernel dequantize_int8_avx2{.name = "cpu_avx2",
                                                   .run = Bind<&RunDequantizeInt8>()};

}  // namespace anyop::ops
