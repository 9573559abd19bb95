// SPDX-License-Identifier: Apache-2.0
// All kernels of convolutions with bf16 dot instructions.

#include "ops/conv/backward.h"
#include "ops/conv/conv.h"

namespace anyop::ops {

ANYOP_KERNEL(conv2d, matrix){.name = "cpu_avx512_dot_bf16_matrix",
                             .when = kIsMatrix2d,
                             .workspace = kWorkspace<&ConvMatrixBytes<2>>,
                             .run = Bind<&RunConv<OnlyDotMath, true>>()};

ANYOP_KERNEL(conv2d){.name = "cpu_avx512_dot_bf16",
                     .when = "T == bf16",
                     .workspace = kWorkspace<&ConvBytes<2>>,
                     .run = Bind<&RunConv<OnlyDotMath, false>>()};

ANYOP_KERNEL(conv2d_backward){.name = "cpu_avx512_dot_bf16",
                              .when = "T == bf16",
                              .workspace = kWorkspace<&ConvBackwardBytes<2>>,
                              .run = Bind<&RunConvBackward<OnlyDotMath>>()};

ANYOP_KERNEL(conv3d, matrix){.name = "cpu_avx512_dot_bf16_matrix",
                             .when = kIsMatrix3d,
                             .workspace = kWorkspace<&ConvMatrixBytes<3>>,
                             .run = Bind<&RunConv<OnlyDotMath, true>>()};

ANYOP_KERNEL(conv3d){.name = "cpu_avx512_dot_bf16",
                     .when = "T == bf16",
                     .workspace = kWorkspace<&ConvBytes<3>>,
                     .run = Bind<&RunConv<OnlyDotMath, false>>()};

ANYOP_KERNEL(conv3d_backward){.name = "cpu_avx512_dot_bf16",
                              .when = "T == bf16",
                              .workspace = kWorkspace<&ConvBackwardBytes<3>>,
                              .run = Bind<&RunConvBackward<OnlyDotMath>>()};

ANYOP_KERNEL(causal_conv2d){.name = "cpu_avx512_dot_bf16",
                            .when = "T == bf16",
                            .workspace = kWorkspace<&ConvBytes<2>>,
                            .run = Bind<&RunCausalConv2d<OnlyDotMath>>()};

ANYOP_KERNEL(patch_embed){.name = "cpu_avx512_dot_bf16",
                          .when = "T == bf16",
                          .workspace = kWorkspace<&PatchEmbedBytes>,
                          .run = Bind<&RunPatchEmbed<OnlyDotMath>>()};

ANYOP_KERNEL(patch_embed_backward){.name = "cpu_avx512_dot_bf16",
                                   .when = "T == bf16",
                                   .workspace = kWorkspace<&PatchEmbedBackwardBytes>,
                                   .run = Bind<&RunPatchEmbedBackward<OnlyDotMath>>()};

}  // namespace anyop::ops
