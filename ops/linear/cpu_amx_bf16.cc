// SPDX-License-Identifier: Apache-2.0
// linear, linear_packed and linear_backward with tiles.

#include "ops/common/gemm/backward.h"
#include "ops/linear/linear.h"

namespace anyop::ops {

extern constinit const Kernel linear_amx{.name = "cpu_amx_bf16",
                                         .when = "T == bf16",
                                         .workspace = kWorkspace<&LinearBytes<AmxMath>>,
                                         .run = Bind<&RunLinear<AmxMath>>()};

extern constinit const Kernel linear_packed_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&LinearPackedBytes<AmxMath>>,
    .run = Bind<&RunLinearPacked<AmxMath>>()};

extern constinit const Kernel linear_backward_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16 and U == bf16",
    .workspace = kWorkspace<&LinearBackwardBytes<AmxMath>>,
    .run = Bind<&RunLinearBackward<AmxMath>>()};

}  // namespace anyop::ops
