// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

extern constinit const Kernel grouped_linear_int8_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&GroupedInt8Bytes>,
    .run = Bind<&RunGroupedLinearInt8>()};
extern constinit const Kernel grouped_linear_int8_packed_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&GroupedInt8PackedBytes>,
    .run = Bind<&RunGroupedLinearInt8Packed>()};

}  // namespace anyop::ops
