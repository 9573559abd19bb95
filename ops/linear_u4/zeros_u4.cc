// SPDX-License-Identifier: Apache-2.0
// zeros_u4: zero points of 4 bits from a checkpoint's words, a byte each, as linear_u4 takes them.
//
//   words   i32; "place p" of a word is its bits 4p to 4p + 3
//   layout  where the zero of row j and group i is:
//
//   gptq     word [i, j/8], place j % 8: qzeros of GPTQ's second format
//   gptq_v1  the same place, which holds the zero - 1: 1 to 16 come out
//   awq      word [i, j/8], place (0, 4, 1, 5, 2, 6, 3, 7)[j % 8]
//   rows     word [j/8, i], place j % 8: weight_zero_point of compressed-tensors, stored + 8
//
// Numerics  Exact.
// Source    AutoGPTQ, AutoAWQ and compressed-tensors checkpoints.

#include <string_view>

#include "anyop/op.h"
#include "ops/linear_u4/places.h"

namespace anyop::ops {
namespace {

void Run(const Context& ctx, const Tensor& words, std::string_view layout, const Tensor& zero) {
  const auto* from = words.base<const std::uint32_t>();
  const std::int64_t columns = words.dim(1);
  const bool along_rows = layout == "rows", is_awq = layout == "awq";
  const unsigned added = layout == "gptq_v1" ? 1 : 0;
  ctx.ForRows(zero, [&](std::int64_t j) {
    auto* to = zero.base<std::uint8_t>() + zero.row_offset(j);
    const int place = is_awq ? kAwqPlaces[j % 8] : int(j % 8);
    for (std::int64_t i = 0; i < zero.dim(1); ++i) {
      const auto word = from[along_rows ? j / 8 * columns + i : i * columns + j / 8];
      to[i] = std::uint8_t((word >> 4 * place & 15) + added);
    }
  });
}

}  // namespace

ANYOP_KERNEL(zeros_u4){.run = Bind<&Run>()};

extern constinit const Op zeros_u4{
    .signature =
        "zeros_u4(words: dense i32[g, n8], layout: 'gptq' | 'gptq_v1' | 'awq') "
        "-> (zero: u8[8*n8, g])\n"
        "zeros_u4(words: dense i32[n8, g], layout: 'rows') -> (zero: u8[8*n8, g])",
};

}  // namespace anyop::ops
