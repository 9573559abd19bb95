// SPDX-License-Identifier: Apache-2.0
// quantize_fp8: floats as f8e4m3, with one scale for the whole tensor.
//
//   q[i] = x[i] * (1 / scale), rounded half to even and clamped to +-448
//
//   scale  what 1 in q stands for
//
// Numerics  Exact in this order: 1 / scale and the product are each rounded to f32. NaN gives NaN.
// Source    vLLM 0.27.1, static_scaled_fp8_quant.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op quantize_fp8{
    .signature =
        "quantize_fp8(x: T[..., d], scale: f32[1]) -> (q: f8e4m3[..., d]) "
        "where T in f32 | f16 | bf16",
    .flops = "3 * size(x)",
    .rowwise = true,
};

}  // namespace anyop::ops
