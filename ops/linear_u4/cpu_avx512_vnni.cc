// SPDX-License-Identifier: Apache-2.0
// linear_u4 and linear_u4_packed with dot products of bytes.

#include "ops/linear_u4/kernel.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_u4){.when = "input == 'int8'",
                        .workspace = kWorkspace<&U4Bytes>,
                        .run = Bind<&RunLinearU4InBytes>()};
ANYOP_KERNEL(linear_u4_packed){.when = "input == 'int8'",
                               .workspace = kWorkspace<&U4PackedBytes>,
                               .run = Bind<&RunLinearU4PackedInBytes>()};

}  // namespace anyop::ops
