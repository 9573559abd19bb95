// SPDX-License-Identifier: Apache-2.0
// All kernels of convolutions with 16 lanes.

#include "ops/conv/backward.h"
#include "ops/conv/conv.h"

namespace anyop::ops {

extern constinit const Kernel conv2d_avx512{.name = "cpu_avx512",
                                            .workspace = kWorkspace<&ConvBytes<2>>,
                                            .run = Bind<&RunConv<AnyMath, false>>()};

extern constinit const Kernel conv2d_matrix_avx512{.name = "cpu_avx512_matrix",
                                                   .when = kIsMatrix2d,
                                                   .workspace = kWorkspace<&ConvMatrixBytes<2>>,
                                                   .run = Bind<&RunConv<AnyMath, true>>()};

extern constinit const Kernel conv2d_backward_avx512{.name = "cpu_avx512",
                                                     .workspace = kWorkspace<&ConvBackwardBytes<2>>,
                                                     .run = Bind<&RunConvBackward<AnyMath>>()};

extern constinit const Kernel conv3d_avx512{.name = "cpu_avx512",
                                            .workspace = kWorkspace<&ConvBytes<3>>,
                                            .run = Bind<&RunConv<AnyMath, false>>()};

extern constinit const Kernel conv3d_matrix_avx512{.name = "cpu_avx512_matrix",
                                                   .when = kIsMatrix3d,
                                                   .workspace = kWorkspace<&ConvMatrixBytes<3>>,
                                                   .run = Bind<&RunConv<AnyMath, true>>()};

extern constinit const Kernel conv3d_backward_avx512{.name = "cpu_avx512",
                                                     .workspace = kWorkspace<&ConvBackwardBytes<3>>,
                                                     .run = Bind<&RunConvBackward<AnyMath>>()};

extern constinit const Kernel causal_conv2d_avx512{.name = "cpu_avx512",
                                                   .workspace = kWorkspace<&ConvBytes<2>>,
                                                   .run = Bind<&RunCausalConv2d<AnyMath>>()};

extern constinit const Kernel patch_embed_avx512{.name = "cpu_avx512",
                                                 .workspace = kWorkspace<&PatchEmbedBytes>,
                                                 .run = Bind<&RunPatchEmbed<AnyMath>>()};

extern constinit const Kernel patch_embed_backward_avx512{
    .name = "cpu_avx512",
    .workspace = kWorkspace<&PatchEmbedBackwardBytes>,
    .run = Bind<&RunPatchEmbedBackward<AnyMath>>()};

}  // namespace anyop::ops
