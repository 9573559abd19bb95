// SPDX-License-Identifier: Apache-2.0
// quantize_fp8_dynamic: floats as f8e4m3, with a scale for each run of elements of a row.
//
//   a = max(max_j |x[j]|, min_amax) over `group` elements of a row, s = a / 448
//   q[j] = x[j] / s, rounded half to even and clamped to +-448; scale = s
//
//   pow2_scale  s becomes the least power of 2 that is not smaller
//   min_amax    the floor of a, and so of the scale: a group of smaller numbers is rounded to
//               multiples of what the floor gives, most of them to 0. It keeps s above 0 where all
//               of x is 0; with a floor of 0 such a group has the scale 0, and q is NaN
//
// Numerics  Exact in this order: a / 448 and x / s are each rounded to f32. NaN gives NaN and is
//           ignored in a. A group with an infinity: s is infinite, q is NaN there and 0 elsewhere.
// Source    DeepSeek-V3, arXiv:2412.19437, section 3.3; vLLM 0.27.1, per_token_group_fp8_quant.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op quantize_fp8_dynamic{
    .signature =
        "quantize_fp8_dynamic(x: T[..., d], group: int, pow2_scale: bool = False, "
        "min_amax: float = 1e-10) -> (q: f8e4m3[..., d], scale: f32[..., d/group]) "
        "where T in f32 | f16 | bf16, group >= 1, d % group == 0",
    .flops = "3 * size(x)",
    .rowwise = true,
};

}  // namespace anyop::ops
