// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_int8/linear_int8.h"

namespace anyop::ops {

extern constinit const Kernel linear_int8_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&BytesWorkspaceBytes<DotBytesMath>>,
    .run = Bind<&RunLinearInt8<DotBytesMath>>()};
extern constinit const Kernel linear_int8_quantized_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&BytesWorkspaceBytes<DotBytesMath>>,
    .run = Bind<&RunLinearInt8Quantized<DotBytesMath>>()};
extern constinit const Kernel linear_int8_packed_avx512_vnni{
    .name = "cpu_avx512_vnni",
    .workspace = kWorkspace<&PackedBytesWorkspaceBytes<DotBytesMath>>,
    .run = Bind<&RunLinearInt8Packed<DotBytesMath>>()};

}  // namespace anyop::ops
