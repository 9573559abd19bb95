// SPDX-License-Identifier: Apache-2.0
#include "ops/topk_router/backward.h"
#include "ops/topk_router/kernel.h"

namespace anyop::ops {

extern constinit const Kernel topk_router_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&RouterBytes<3>>, .run = Bind<&Run>()};
extern constinit const Kernel topk_router_backward_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&RouterBytes<2>>, .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
