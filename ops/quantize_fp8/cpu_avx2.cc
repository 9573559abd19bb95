// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize_fp8/kernel.h"

namespace anyop::ops {

extern constinit const Kernel quantize_fp8_avx2{.name = "cpu_avx2", .run = Bind<&RunQuantizeFp8>()};
extern constinit const Kernel quantize_fp8_dynamic_avx2{.name = "cpu_avx2",
                                                        .run = Bind<&RunQuantizeFp8Dynamic>()};

}  // namespace anyop::ops
