// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_int8/linear_int8.h"

namespace anyop::ops {

extern constinit const Kernel linear_int8_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&BytesWorkspaceBytes<WideBytesMath>>,
    .run = Bind<&RunLinearInt8<WideBytesMath>>()};
extern constinit const Kernel linear_int8_quantized_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&BytesWorkspaceBytes<WideBytesMath>>,
    .run = Bind<&RunLinearInt8Quantized<WideBytesMath>>()};
extern constinit const Kernel linear_int8_packed_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&PackedBytesWorkspaceBytes<WideBytesMath>>,
    .run = Bind<&RunLinearInt8Packed<WideBytesMath>>()};

}  // namespace anyop::ops
