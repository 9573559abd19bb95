// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/backward.h"

namespace anyop::ops {

extern constinit const Kernel embedding_backward_avx512{
    .name = "cpu_avx512",
    .workspace = ANYOP_EMBEDDING_BACKWARD_WORKSPACE,
    .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
