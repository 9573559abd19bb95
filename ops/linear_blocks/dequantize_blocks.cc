// SPDX-License-Identifier: Apache-2.0
// dequantize_blocks: the numbers that rows of blocks stand for.
//
//   x[i, l] = d * q + m, with the d, m and q of the block of l
//
//   weight  rows of blocks, as linear_blocks takes them
//   format  any that linear_blocks takes
//
// Numerics  One rounding: d * q is exact in f32, but for q6_K.
// Source    ggml block formats.

#include "anyop/op.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {
namespace {

template <class F>
void Decode(const Context& ctx, const Tensor& weight, const Tensor& x) {
  const std::int64_t blocks = x.dim(1) / kElementsOf<F>;
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto* from = weight.base<const std::uint8_t>() + r * blocks * F::kBytes;
    float* to = x.base<float>() + x.row_offset(r);
    for (std::int64_t b = 0; b < blocks; ++b)
      DecodeBlock<F>(from + b * F::kBytes, to + b * kElementsOf<F>);
  });
}

void Run(const Context& ctx, const Tensor& weight, std::string_view format, const Tensor& x) {
  VisitFormat(format, [&](auto f) { Decode<decltype(f)>(ctx, weight, x); });
}

}  // namespace

ANYOP_KERNEL(dequantize_blocks){.run = Bind<&Run>()};

extern constinit const Op dequantize_blocks{
    .signature =
        "dequantize_blocks(weight: dense u8[n, 18*g], format: 'q4_0') -> (x: f32[n, 32*g])\n"
        "dequantize_blocks(weight: dense u8[n, 20*g], format: 'q4_1') -> (x: f32[n, 32*g])\n"
        "dequantize_blocks(weight: dense u8[n, 34*g], format: 'q8_0') -> (x: f32[n, 32*g])\n"
        "dequantize_blocks(weight: dense u8[n, 22*g], format: 'q5_0') -> (x: f32[n, 32*g])\n"
        "dequantize_blocks(weight: dense u8[n, 24*g], format: 'q5_1') -> (x: f32[n, 32*g])\n"
        "dequantize_blocks(weight: dense u8[n, 144*s], format: 'q4_K') -> (x: f32[n, 256*s])\n"
        "dequantize_blocks(weight: dense u8[n, 176*s], format: 'q5_K') -> (x: f32[n, 256*s])\n"
        "dequantize_blocks(weight: dense u8[n, 210*s], format: 'q6_K') -> (x: f32[n, 256*s])",
};

}  // namespace anyop::ops
