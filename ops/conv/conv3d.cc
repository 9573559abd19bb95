// SPDX-License-Identifier: Apache-2.0
// conv3d: a filter slides over volumes, or over images along time; neither is turned round.
//
//   y[n, o, S, Y, X] = bias[o] + sum over c, z, a, b of weight[o, c, z, a, b] *
//       x[n, g*cg + c, S*stride[0] - front + z*dilation[0], Y*stride[1] - top + a*dilation[1],
//                      X*stride[2] - left + b*dilation[2]]
//
//   g = o / (co/groups) is the group of filter o; x is 0 outside
//
//   stride    steps between positions
//   padding   zeros before and after each axis; ignored unless pad is 'given'
//   dilation  steps between the taps of a filter
//   groups    channels and filters are cut into so many parts that do not mix
//   pad       'given' pads by `padding`, 'valid' not at all, 'same' so that y has the size of x
//             (stride 1; an odd total has its extra zero at the end)
//
// Where the stride is the kernel and nothing is padded or dilated, patches do not overlap: kernels
// named _matrix multiply them by the filters as they lie.
//
// Numerics  Products and sums in f32 for every T, one rounding on the store. The order of a sum
//           does not depend on threads or on other images.
//           A zero outside is multiplied too: a weight that is not finite makes NaN of it.
// Source    definition; PyTorch 2.13, torch.nn.functional.conv3d.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op conv3d{
    .signature =
        "conv3d(x: T[n, cg*groups, s, h, w], weight: T[co, cg, ks, kh, kw], bias: T[co]?, "
        "stride: int[3] = [1, 1, 1], padding: int[3] = [0, 0, 0], dilation: int[3] = [1, "
        "1, 1], groups: int = 1, pad: 'given' = 'given') -> (y: T[n, co, (s + 2*padding[0] "
        "- dilation[0]*(ks-1) - 1)/stride[0] + 1, (h + 2*padding[1] - dilation[1]*(kh-1) - "
        "1)/stride[1] + 1, (w + 2*padding[2] - dilation[2]*(kw-1) - 1)/stride[2] + 1]) "
        "where T in f32 | f16 | bf16, groups >= 1, co % groups == 0, ks >= 1, kh >= 1, kw "
        ">= 1, dilation >= 1, stride >= 1, padding >= 0, s + 2*padding[0] >= "
        "dilation[0]*(ks-1) + 1, h + 2*padding[1] >= dilation[1]*(kh-1) + 1, w + "
        "2*padding[2] >= dilation[2]*(kw-1) + 1\n"
        "conv3d(x: T[n, cg*groups, s, h, w], weight: T[co, cg, ks, kh, kw], bias: T[co]?, "
        "stride: int[3] = [1, 1, 1], padding: int[3] = [0, 0, 0], dilation: int[3] = [1, "
        "1, 1], groups: int = 1, pad: 'valid') -> (y: T[n, co, (s - dilation[0]*(ks-1) - "
        "1)/stride[0] + 1, (h - dilation[1]*(kh-1) - 1)/stride[1] + 1, (w - "
        "dilation[2]*(kw-1) - 1)/stride[2] + 1]) where T in f32 | f16 | bf16, groups >= 1, "
        "co % groups == 0, ks >= 1, kh >= 1, kw >= 1, dilation >= 1, stride >= 1, s >= "
        "dilation[0]*(ks-1) + 1, h >= dilation[1]*(kh-1) + 1, w >= dilation[2]*(kw-1) + 1\n"
        "conv3d(x: T[n, cg*groups, s, h, w], weight: T[co, cg, ks, kh, kw], bias: T[co]?, "
        "stride: int[3] = [1, 1, 1], padding: int[3] = [0, 0, 0], dilation: int[3] = [1, "
        "1, 1], groups: int = 1, pad: 'same') -> (y: T[n, co, s, h, w]) where T in f32 | "
        "f16 | bf16, groups >= 1, co % groups == 0, ks >= 1, kh >= 1, kw >= 1, dilation >= "
        "1, stride == 1",
    .gradient = "conv3d_backward",
    .flops = "2 * (size(y) / max(co, 1)) * size(weight)",
};

}  // namespace anyop::ops
