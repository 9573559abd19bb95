// SPDX-License-Identifier: Apache-2.0
// All kernels of convolutions but those with dot instructions and tiles.

#include "ops/conv/backward.h"
#include "ops/conv/conv.h"

namespace anyop::ops {

ANYOP_KERNEL(conv2d, matrix){.name = ANYOP_KERNEL_NAME "_matrix",
                             .when = kIsMatrix2d,
                             .workspace = kWorkspace<&ConvMatrixBytes<2>>,
                             .run = Bind<&RunConv<AnyMath, true>>()};

ANYOP_KERNEL(conv2d){.workspace = kWorkspace<&ConvBytes<2>>,
                     .run = Bind<&RunConv<AnyMath, false>>()};

ANYOP_KERNEL(conv2d_backward){.workspace = kWorkspace<&ConvBackwardBytes<2>>,
                              .run = Bind<&RunConvBackward<AnyMath>>()};

ANYOP_KERNEL(conv3d, matrix){.name = ANYOP_KERNEL_NAME "_matrix",
                             .when = kIsMatrix3d,
                             .workspace = kWorkspace<&ConvMatrixBytes<3>>,
                             .run = Bind<&RunConv<AnyMath, true>>()};

ANYOP_KERNEL(conv3d){.workspace = kWorkspace<&ConvBytes<3>>,
                     .run = Bind<&RunConv<AnyMath, false>>()};

ANYOP_KERNEL(conv3d_backward){.workspace = kWorkspace<&ConvBackwardBytes<3>>,
                              .run = Bind<&RunConvBackward<AnyMath>>()};

ANYOP_KERNEL(causal_conv2d){.workspace = kWorkspace<&ConvBytes<2>>,
                            .run = Bind<&RunCausalConv2d<AnyMath>>()};

ANYOP_KERNEL(patch_embed){.workspace = kWorkspace<&PatchEmbedBytes>,
                          .run = Bind<&RunPatchEmbed<AnyMath>>()};

ANYOP_KERNEL(patch_embed_backward){.workspace = kWorkspace<&PatchEmbedBackwardBytes>,
                                   .run = Bind<&RunPatchEmbedBackward<AnyMath>>()};

}  // namespace anyop::ops
