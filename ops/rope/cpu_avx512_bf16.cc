// SPDX-License-Identifier: Apache-2.0
#include "ops/rope/rope.h"

namespace anyop::ops {

extern constinit const Kernel rope_avx512_bf16{
    .name = "cpu_avx512_bf16", .when = "T == bf16", .run = Bind<&RunRope>()};
extern constinit const Kernel rope_backward_avx512_bf16{
    .name = "cpu_avx512_bf16", .when = "T == bf16", .run = Bind<&RunRopeBackward>()};

}  // namespace anyop::ops
