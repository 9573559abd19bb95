// SPDX-License-Identifier: Apache-2.0
#include "ops/sparse_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel sparse_attention_avx2{
    .name = "cpu_avx2", .workspace = kWorkspace<&SparseBytes>, .run = Bind<&Run<FloatRows>>()};

}  // namespace anyop::ops
