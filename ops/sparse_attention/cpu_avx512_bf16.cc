// SPDX-License-Identifier: Apache-2.0
#include "ops/sparse_attention/kernel.h"

namespace anyop::ops {

extern constinit const Kernel sparse_attention_avx512_dot{.name = "cpu_avx512_dot_bf16",
                                                          .when = "T == bf16",
                                                          .workspace = kWorkspace<&SparseBytes>,
                                                          .run = Bind<&Run<PairRows>>()};

}  // namespace anyop::ops
