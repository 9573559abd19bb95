// SPDX-License-Identifier: Apache-2.0
// quantize_int8_dynamic: floats as bytes, with a scale for each row that its largest element sets.
//
//   False  a = max_j |x[j]|, scale = a / 127, r = 127 / a, q[j] = rne(x[j] * r), clamped to
//          -127 ... 127
//   True   scale = (hi - lo) / 255, r = 255 / (hi - lo), zero_point = rne(-128 - lo * r),
//          q[j] = sat(rne(x[j] * r) + zero_point)
//
//   asymmetric  whether rows have a zero point; the result zero_point is empty otherwise
//   range       of rows with a zero point: 'zero' is lo = min(x, 0), hi = max(x, 0) over the row,
//               'data' leaves out the 0, which gives finer steps and zero points that may be far
//               from a byte
//
// Numerics  Exact in this order, each step rounded to f32. A row of zeros: scale = 1, q is 0 or,
//           asymmetric, q = zero_point = -128. NaN is ignored in the maxima and gives q =
//           zero_point (0 if none). A row that holds an infinity: scale is infinite, q and
//           zero_point are 0. Where lo = 0, lo * r is 0, even if the range is too small for a
//           finite r. Of 'data', where |lo * r| is no number up to 2^22, as in a row of one value,
//           lo and hi are those of 'zero'.
// Source    vLLM 0.27.1, dynamic_scaled_int8_quant, whose range is 'data', with a scale of 0 for a
//           row of one value.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op quantize_int8_dynamic{
    .signature =
        "quantize_int8_dynamic(x: T[..., d], asymmetric: bool = False, range: 'zero' | 'data' = "
        "'zero') -> (q: i8[..., d], scale: f32[..., 1], zero_point: i32[..., asymmetric]) "
        "where T in f32 | f16 | bf16, d >= 1",
    .flops = "3 * size(x)",
    .rowwise = true,
};

}  // namespace anyop::ops
