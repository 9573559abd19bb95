// SPDX-License-Identifier: Apache-2.0
#include "ops/sparse_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel sparse_attention_avx512{
    .name = "cpu_avx512", .workspace = kWorkspace<&SparseBytes>, .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
