// SPDX-License-Identifier: Apache-2.0
#include "ops/kv_rmsnorm_rope_cache/kernel.h"

namespace anyop::ops {

extern constinit const Kernel kv_rmsnorm_rope_cache_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
