// SPDX-License-Identifier: Apache-2.0
// causal_conv2d: conv2d along the width, and causal along the height, which may be time.
//
//   y[n, o, Y, X] = bias[o] + sum over c, a, b of
//       weight[o, c, a, b] * x[n, g*cg + c, Y*stride[0] - top + a*dilation[0],
//                                           X*stride[1] - padding_w + b*dilation[1]]
//
//   top = dilation[0]*(kh-1): row Y sees rows up to Y*stride[0] of x only
//
//   cache      the rows just before x, in place of zeros. Where a call is cut along the height, the
//              last rows of (cache, x) are the next call's cache, and rows of y are those of the
//              whole call
//   padding_w  zeros on both sides of the width
//   groups     channels and filters are cut into so many parts that do not mix
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. The order of a sum
//           does not depend on threads or on other images.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op causal_conv2d{
    .signature =
        "causal_conv2d(x: T[n, cg*groups, h, w], weight: T[co, cg, kh, kw], bias: T[co]?, "
        "cache: T[n, cg*groups, hc, w]?, stride: int[2] = [1, 1], padding_w: int = 0, "
        "dilation: int[2] = [1, 1], groups: int = 1) -> (y: T[n, co, (h - 1)/stride[0] + "
        "1, (w + 2*padding_w - dilation[1]*(kw-1) - 1)/stride[1] + 1]) where T in f32 | "
        "f16 | bf16, groups >= 1, co % groups == 0, stride >= 1, dilation >= 1, padding_w "
        ">= 0, h >= 1, kh >= 1, kw >= 1, w + 2*padding_w >= dilation[1]*(kw-1) + 1, hc == "
        "dilation[0]*(kh-1)",
    .flops = "2 * (size(y) / max(co, 1)) * size(weight)",
};

}  // namespace anyop::ops
