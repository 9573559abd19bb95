// SPDX-License-Identifier: Apache-2.0
// patch_embed: each patch of an image (or volume) through a dense layer, as vision models begin.
//
//   y[n, q, o] = bias[o] + sum over c, a, b of weight[o, c, a, b] * x[n, c, Y*kh + a, X*kw + b]
//
//   q = Y*(w/kw) + X; a volume has an axis s before, with z and ks. It is conv2d or conv3d with the
//   stride of its kernel, with channels last
//
//   x  a remainder at the end of an axis, shorter than a patch, is left out
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. The order of a sum
//           does not depend on threads or on other images.
// Source    identity; vLLM 0.27.1, Conv2dLayer; timm, PatchEmbed.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op patch_embed{
    .signature =
        "patch_embed(x: T[n, ci, h, w], weight: T[co, ci, kh, kw], bias: T[co]?) -> (y: "
        "T[n, h/kh * (w/kw), co]) where T in f32 | f16 | bf16, kh >= 1, kw >= 1\n"
        "patch_embed(x: T[n, ci, s, h, w], weight: T[co, ci, ks, kh, kw], bias: T[co]?) -> "
        "(y: T[n, s/ks * (h/kh) * (w/kw), co]) where T in f32 | f16 | bf16, ks >= 1, kh >= "
        "1, kw >= 1",
    .gradient = "patch_embed_backward",
    .flops = "2 * rows(y) * size(weight)",
};

}  // namespace anyop::ops
