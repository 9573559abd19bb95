// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_linear/backward.h"
#include "ops/grouped_linear/kernels.h"

namespace anyop::ops {

extern constinit const Kernel grouped_linear_amx{.name = "cpu_amx_bf16",
                                                 .when = "T == bf16",
                                                 .workspace = kWorkspace<&GroupedLinearBytes>,
                                                 .run = Bind<&RunGroupedLinear>()};
extern constinit const Kernel grouped_linear_packed_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&GroupedLinearPackedBytes>,
    .run = Bind<&RunGroupedLinearPacked>()};

extern constinit const Kernel grouped_linear_backward_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&GroupedBackwardBytes>,
    .run = Bind<&RunGroupedLinearBackward>()};

}  // namespace anyop::ops
