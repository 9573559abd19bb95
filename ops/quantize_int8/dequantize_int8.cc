// SPDX-License-Identifier: Apache-2.0
// dequantize_int8: bytes back to floats.
//
//   x[i] = f32(q[i] - zero_point) * scale
//
//   scale       one for each row, or one for the whole tensor
//   zero_point  likewise; 0 if absent
//   to          f32, f16 or bf16
//
// Numerics  Exact in this order: the difference of integers and its product are each rounded to
//           f32, then to `to`.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op dequantize_int8{
    .signature =
        "dequantize_int8(q: i8[..., d], scale: f32[..., 1], zero_point: i32[..., 1]?, "
        "to: dtype = f32) -> (x: to[..., d]) where to in f32 | f16 | bf16\n"
        "dequantize_int8(q: i8[..., d], scale: f32[1], zero_point: i32[1]?, "
        "to: dtype = f32) -> (x: to[..., d]) where to in f32 | f16 | bf16",
    .flops = "2 * size(q)",
    .rowwise = true,
};

}  // namespace anyop::ops
