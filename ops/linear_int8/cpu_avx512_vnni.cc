// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_int8/linear_int8.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_int8){.workspace = kWorkspace<&BytesWorkspaceBytes<DotBytesMath>>,
                          .run = Bind<&RunLinearInt8<DotBytesMath>>()};
ANYOP_KERNEL(linear_int8_quantized){.workspace = kWorkspace<&BytesWorkspaceBytes<DotBytesMath>>,
                                    .run = Bind<&RunLinearInt8Quantized<DotBytesMath>>()};
ANYOP_KERNEL(linear_int8_packed){.workspace = kWorkspace<&PackedBytesWorkspaceBytes<DotBytesMath>>,
                                 .run = Bind<&RunLinearInt8Packed<DotBytesMath>>()};
ANYOP_KERNEL(linear_int8_quantized_packed){
    .workspace = kWorkspace<&PackedBytesWorkspaceBytes<DotBytesMath>>,
    .run = Bind<&RunLinearInt8QuantizedPacked<DotBytesMath>>()};

}  // namespace anyop::ops
