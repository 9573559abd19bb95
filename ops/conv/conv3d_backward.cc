// SPDX-License-Identifier: Apache-2.0
// conv3d_backward: the gradients of conv3d.
//
//   dx[n, c, i] = sum over filters o, and positions Y whose tap a meets i, of
//       dy[n, o, Y] * weight[o, c, a]
//   dweight[o, c, a] = sum over n, Y of dy[n, o, Y] * x[n, c, Y*stride - top + a*dilation]
//   dbias[o] = sum over n, Y of dy[n, o, Y]
//
// Arguments have the meanings that conv3d gives them.
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. The order of a sum
//           does not depend on threads or on other images.
//           Sums for dbias are in f64.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op conv3d_backward{
    .signature =
        "conv3d_backward(dy: T[n, co, so, ho, wo], x: T[n, cg*groups, s, h, w], weight: "
        "T[co, cg, ks, kh, kw], stride: int[3], padding: int[3], dilation: int[3], groups: "
        "int, pad: 'given') -> (dx: T[n, cg*groups, s, h, w]?, dweight: T[co, cg, ks, kh, "
        "kw]?, dbias: T[co]?) where T in f32 | f16 | bf16, groups >= 1, co % groups == 0, "
        "ks >= 1, kh >= 1, kw >= 1, dilation >= 1, stride >= 1, padding >= 0, s + "
        "2*padding[0] >= dilation[0]*(ks-1) + 1, h + 2*padding[1] >= dilation[1]*(kh-1) + "
        "1, w + 2*padding[2] >= dilation[2]*(kw-1) + 1, so == (s + 2*padding[0] - "
        "dilation[0]*(ks-1) - 1)/stride[0] + 1, ho == (h + 2*padding[1] - "
        "dilation[1]*(kh-1) - 1)/stride[1] + 1, wo == (w + 2*padding[2] - "
        "dilation[2]*(kw-1) - 1)/stride[2] + 1\n"
        "conv3d_backward(dy: T[n, co, so, ho, wo], x: T[n, cg*groups, s, h, w], weight: "
        "T[co, cg, ks, kh, kw], stride: int[3], padding: int[3], dilation: int[3], groups: "
        "int, pad: 'valid') -> (dx: T[n, cg*groups, s, h, w]?, dweight: T[co, cg, ks, kh, "
        "kw]?, dbias: T[co]?) where T in f32 | f16 | bf16, groups >= 1, co % groups == 0, "
        "ks >= 1, kh >= 1, kw >= 1, dilation >= 1, stride >= 1, s >= dilation[0]*(ks-1) + "
        "1, h >= dilation[1]*(kh-1) + 1, w >= dilation[2]*(kw-1) + 1, so == (s - "
        "dilation[0]*(ks-1) - 1)/stride[0] + 1, ho == (h - dilation[1]*(kh-1) - "
        "1)/stride[1] + 1, wo == (w - dilation[2]*(kw-1) - 1)/stride[2] + 1\n"
        "conv3d_backward(dy: T[n, co, so, ho, wo], x: T[n, cg*groups, s, h, w], weight: "
        "T[co, cg, ks, kh, kw], stride: int[3], padding: int[3], dilation: int[3], groups: "
        "int, pad: 'same') -> (dx: T[n, cg*groups, s, h, w]?, dweight: T[co, cg, ks, kh, "
        "kw]?, dbias: T[co]?) where T in f32 | f16 | bf16, groups >= 1, co % groups == 0, "
        "ks >= 1, kh >= 1, kw >= 1, dilation >= 1, stride == 1, so == s, ho == h, wo == w",
    .flops = "4 * (size(dy) / max(co, 1)) * size(weight)",
};

}  // namespace anyop::ops
