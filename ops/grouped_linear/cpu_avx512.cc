// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/backward.h"
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

extern constinit const Kernel grouped_linear_avx512{.name = "cpu_avx512",
                                                    .workspace = kWorkspace<&GroupedLinearBytes>,
                                                    .run = Bind<&RunGroupedLinear>()};
extern constinit const Kernel grouped_linear_packed_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&GroupedLinearPackedBytes>,
    .run = Bind<&RunGroupedLinearPacked>()};
extern constinit const Kernel grouped_linear_backward_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&GroupedBackwardBytes>,
    .run = Bind<&RunGroupedLinearBackward>()};
extern constinit const Kernel grouped_linear_int8_avx512{.name = "cpu_avx512",
                                                         .workspace = kWorkspace<&GroupedInt8Bytes>,
                                                         .run = Bind<&RunGroupedLinearInt8>()};
extern constinit const Kernel grouped_linear_int8_packed_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&GroupedInt8PackedBytes>,
    .run = Bind<&RunGroupedLinearInt8Packed>()};

}  // namespace anyop::ops
