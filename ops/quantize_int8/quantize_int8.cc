// SPDX-License-Identifier: Apache-2.0
// quantize_int8: floats as bytes, with one scale for the whole tensor.
//
//   q[i] = sat(rne(x[i] * r) + zero_point)     r = 1 / scale
//
//   scale       the step between two bytes; finite and not 0 (check mode refuses others)
//   zero_point  the byte that stands for 0; 0 if absent
//
// Numerics  Exact in this order: r, x * r and the sum are each rounded to f32, rne rounds half to
//           even, sat clamps to -128 ... 127. NaN gives zero_point, clamped.
// Source    vLLM 0.27.1, static_scaled_int8_quant, which divides by scale: q may differ by 1 at
//           ties.

#include <cmath>

#include "anyop/op.h"
#include "ops/common/check_data.h"

namespace anyop::ops {
namespace {

void CheckScale(const Context&, const Tensor&, const Tensor& scale, const Tensor*) {
  CheckElements(
      "scale", scale, [](double s) { return std::isfinite(s) && s != 0; },
      "finite and not 0, because x is divided by it");
}

}  // namespace

extern constinit const Op quantize_int8{
    .signature =
        "quantize_int8(x: T[..., d], scale: f32[1], zero_point: i32[1]?) -> (q: i8[..., d]) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(x)",
    .rowwise = true,
    .check_data = Bind<&CheckScale>(),
};

}  // namespace anyop::ops
