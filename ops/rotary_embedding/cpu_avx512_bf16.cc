// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding/rotary_embedding.h"

namespace anyop::ops {

extern constinit const Kernel rotary_embedding_avx512_bf16{
    .name = "cpu_avx512_bf16", .when = "T == bf16", .run = Bind<&RunRotaryEmbedding>()};

}  // namespace anyop::ops
