// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding/rotary_embedding.h"

namespace anyop::ops {

ANYOP_KERNEL(rotary_embedding){.run = Bind<&RunRotaryEmbedding>()};

}  // namespace anyop::ops
