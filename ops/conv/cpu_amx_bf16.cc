// SPDX-License-Identifier: Apache-2.0
// All kernels of convolutions with tiles.

#include "ops/conv/backward.h"
#include "ops/conv/conv.h"

namespace anyop::ops {

extern constinit const Kernel conv2d_amx{.name = "cpu_amx_bf16",
                                         .when = "T == bf16",
                                         .workspace = kWorkspace<&ConvBytes<2>>,
                                         .run = Bind<&RunConv<OnlyDotMath, false>>()};

extern constinit const Kernel conv2d_matrix_amx{.name = "cpu_amx_bf16_matrix",
                                                .when = kIsMatrix2d,
                                                .workspace = kWorkspace<&ConvMatrixBytes<2>>,
                                                .run = Bind<&RunConv<OnlyDotMath, true>>()};

extern constinit const Kernel conv2d_backward_amx{.name = "cpu_amx_bf16",
                                                  .when = "T == bf16",
                                                  .workspace = kWorkspace<&ConvBackwardBytes<2>>,
                                                  .run = Bind<&RunConvBackward<OnlyDotMath>>()};

extern constinit const Kernel conv3d_amx{.name = "cpu_amx_bf16",
                                         .when = "T == bf16",
                                         .workspace = kWorkspace<&ConvBytes<3>>,
                                         .run = Bind<&RunConv<OnlyDotMath, false>>()};

extern constinit const Kernel conv3d_matrix_amx{.name = "cpu_amx_bf16_matrix",
                                                .when = kIsMatrix3d,
                                                .workspace = kWorkspace<&ConvMatrixBytes<3>>,
                                                .run = Bind<&RunConv<OnlyDotMath, true>>()};

extern constinit const Kernel conv3d_backward_amx{.name = "cpu_amx_bf16",
                                                  .when = "T == bf16",
                                                  .workspace = kWorkspace<&ConvBackwardBytes<3>>,
                                                  .run = Bind<&RunConvBackward<OnlyDotMath>>()};

extern constinit const Kernel causal_conv2d_amx{.name = "cpu_amx_bf16",
                                                .when = "T == bf16",
                                                .workspace = kWorkspace<&ConvBytes<2>>,
                                                .run = Bind<&RunCausalConv2d<OnlyDotMath>>()};

extern constinit const Kernel patch_embed_amx{.name = "cpu_amx_bf16",
                                              .when = "T == bf16",
                                              .workspace = kWorkspace<&PatchEmbedBytes>,
                                              .run = Bind<&RunPatchEmbed<OnlyDotMath>>()};

extern constinit const Kernel patch_embed_backward_amx{
    .name = "cpu_amx_bf16",
    .when = "T == bf16",
    .workspace = kWorkspace<&PatchEmbedBackwardBytes>,
    .run = Bind<&RunPatchEmbedBackward<OnlyDotMath>>()};

}  // namespace anyop::ops
