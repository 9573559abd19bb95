// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_int8/linear_int8.h"

namespace anyop::ops {

ANYOP_KERNEL(linear_int8){.workspace = kWorkspace<&BytesWorkspaceBytes<WideBytesMath>>,
                          .run = Bind<&RunLinearInt8<WideBytesMath>>()};
ANYOP_KERNEL(linear_int8_quantized){.workspace = kWorkspace<&BytesWorkspaceBytes<WideBytesMath>>,
                                    .run = Bind<&RunLinearInt8Quantized<WideBytesMath>>()};
ANYOP_KERNEL(linear_int8_packed){.workspace = kWorkspace<&PackedBytesWorkspaceBytes<WideBytesMath>>,
                                 .run = Bind<&RunLinearInt8Packed<WideBytesMath>>()};
ANYOP_KERNEL(linear_int8_quantized_packed){
    .workspace = kWorkspace<&PackedBytesWorkspaceBytes<WideBytesMath>>,
    .run = Bind<&RunLinearInt8QuantizedPacked<WideBytesMath>>()};

}  // namespace anyop::ops
