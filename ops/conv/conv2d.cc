// SPDX-License-Identifier: Apache-2.0
// conv2d: a filter slides over images; neither is turned round (cross-correlation).
//
//   y[n, o, Y, X] = bias[o] + sum over c, a, b of
//       weight[o, c, a, b] * x[n, g*cg + c, Y*stride[0] - top + a*dilation[0],
//                                           X*stride[1] - left + b*dilation[1]]
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
// Source    definition; PyTorch 2.13, torch.nn.functional.conv2d.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op conv2d{
    .signature =
        "conv2d(x: T[n, cg*groups, h, w], weight: T[co, cg, kh, kw], bias: T[co]?, stride: "
        "int[2] = [1, 1], padding: int[2] = [0, 0], dilation: int[2] = [1, 1], groups: int "
        "= 1, pad: 'given' = 'given') -> (y: T[n, co, (h + 2*padding[0] - "
        "dilation[0]*(kh-1) - 1)/stride[0] + 1, (w + 2*padding[1] - dilation[1]*(kw-1) - "
        "1)/stride[1] + 1]) where T in f32 | f16 | bf16, groups >= 1, co % groups == 0, kh "
        ">= 1, kw >= 1, dilation >= 1, stride >= 1, padding >= 0, h + 2*padding[0] >= "
        "dilation[0]*(kh-1) + 1, w + 2*padding[1] >= dilation[1]*(kw-1) + 1\n"
        "conv2d(x: T[n, cg*groups, h, w], weight: T[co, cg, kh, kw], bias: T[co]?, stride: "
        "int[2] = [1, 1], padding: int[2] = [0, 0], dilation: int[2] = [1, 1], groups: int "
        "= 1, pad: 'valid') -> (y: T[n, co, (h - dilation[0]*(kh-1) - 1)/stride[0] + 1, (w "
        "- dilation[1]*(kw-1) - 1)/stride[1] + 1]) where T in f32 | f16 | bf16, groups >= "
        "1, co % groups == 0, kh >= 1, kw >= 1, dilation >= 1, stride >= 1, h >= "
        "dilation[0]*(kh-1) + 1, w >= dilation[1]*(kw-1) + 1\n"
        "conv2d(x: T[n, cg*groups, h, w], weight: T[co, cg, kh, kw], bias: T[co]?, stride: "
        "int[2] = [1, 1], padding: int[2] = [0, 0], dilation: int[2] = [1, 1], groups: int "
        "= 1, pad: 'same') -> (y: T[n, co, h, w]) where T in f32 | f16 | bf16, groups >= "
        "1, co % groups == 0, kh >= 1, kw >= 1, dilation >= 1, stride == 1",
    .gradient = "conv2d_backward",
    .flops = "2 * (size(y) / max(co, 1)) * size(weight)",
};

}  // namespace anyop::ops
