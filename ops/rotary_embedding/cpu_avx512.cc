// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding/rotary_embedding.h"

namespace anyop::ops {

extern constinit const Kernel rotary_embedding_avx512{.name = "cpu_avx512",
                                                      .run = Bind<&RunRotaryEmbedding>()};

}  // namespace anyop::ops
