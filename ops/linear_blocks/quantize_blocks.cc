// SPDX-License-Identifier: Apache-2.0
// quantize_blocks: rounds rows of f32 to blocks of 32 that share a scale.
//
//   q4_0  z = the element of largest |x|, the first of equals; d = z / -8;
//         q = min(15, trunc(x / d + 8.5))
//   q4_1  m = min x, d = (max x - m) / 15; q = min(15, trunc((x - m) / d + 0.5))
//   q8_0  d = max |x| / 127; q = x / d rounded half away from zero
//
//   x       the numbers; a row may be any piece of memory
//   format  of the blocks, as linear_blocks describes them
//
// Numerics  every step in f32; x / d is x * (1 / d), and 0 where d is 0. d and m are rounded to f16
//           afterwards. The bytes for NaN and infinities are unspecified.
// Source    ggml block formats; the Python package gguf gives the same bits.

#include "ops/linear_blocks/quantize.h"

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class F>
void Quantize(const Context& ctx, const Tensor& x, const Tensor& weight) {
  const std::int64_t blocks = x.dim(1) / kBlockElements;
  ctx.ForRows(
      x,
      [&](std::int64_t r) {
        const float* from = x.base<const float>() + x.row_offset(r);
        auto* to = weight.base<std::uint8_t>() + weight.row_offset(r);
        for (std::int64_t b = 0; b < blocks; ++b)
          QuantizeBlock(from + b * kBlockElements, to + b * F::kBytes, F{});
      },
      2);
}

void Run(const Context& ctx, const Tensor& x, std::string_view format, const Tensor& weight) {
  VisitQuantizer(format, [&](auto f) { Quantize<decltype(f)>(ctx, x, weight); });
}

}  // namespace

ANYOP_KERNEL(quantize_blocks){.run = Bind<&Run>()};

extern constinit const Op quantize_blocks{
    .signature =
        "quantize_blocks(x: f32[n, 32*g], format: 'q4_0') -> (weight: u8[n, 18*g])\n"
        "quantize_blocks(x: f32[n, 32*g], format: 'q4_1') -> (weight: u8[n, 20*g])\n"
        "quantize_blocks(x: f32[n, 32*g], format: 'q8_0') -> (weight: u8[n, 34*g])",
};

}  // namespace anyop::ops
