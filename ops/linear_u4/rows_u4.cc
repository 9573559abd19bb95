// SPDX-License-Identifier: Apache-2.0
// rows_u4: weights of 4 bits from a checkpoint's words, as linear_u4 takes them.
//
//   byte b of row j holds element l = 2b in its low 4 bits and 2b + 1 in its high ones
//
//   words   i32; "place p" of a word is its bits 4p to 4p + 3
//   layout  where element l of row j is:
//
//   gptq      word [l/8, j], place l % 8: qweight of AutoGPTQ
//   awq       word [l, j/8], place (0, 4, 1, 5, 2, 6, 3, 7)[j % 8]: qweight of AutoAWQ
//   rows      word [j, l/8], place l % 8: weight_packed of compressed-tensors, whose numbers are
//             stored + 8
//   blocks16  words [j/16, 2l] and [j/16, 2l + 1], places j % 8 of the word j % 16 / 8: q_weight of
//             vLLM's cpu_gemm_wna16
//
// Numerics  A copy, bit for bit.
// Source    AutoGPTQ, AutoAWQ and compressed-tensors checkpoints; vLLM 0.27.1.

#include <algorithm>
#include <string_view>

#include "anyop/op.h"
#include "ops/linear_u4/places.h"

namespace anyop::ops {
namespace {

// Where elements lie: word of (l, j) at words[l / kL * l_word + j / kJ * j_word], its place.
struct Layout {
  std::int64_t l_per_word, j_per_word;  // elements that share a word along l, along j
  bool is_awq;
};

Layout LayoutOf(std::string_view name) {
  if (name == "gptq" || name == "rows") return {8, 1, false};
  return {1, 8, name == "awq"};
}

void Run(const Context& ctx, const Tensor& words, std::string_view name, const Tensor& weight) {
  const Layout layout = LayoutOf(name);
  const auto* from = words.base<const std::uint32_t>();
  const std::int64_t columns = words.dim(1);
  const bool along_rows = name == "rows", is_blocks = name == "blocks16";
  const auto word = [&](std::int64_t j, std::int64_t l) {
    if (is_blocks) return from[j / 16 * columns + 2 * l + j % 16 / 8];
    if (along_rows) return from[j * columns + l / 8];
    return from[l / layout.l_per_word * columns + j / layout.j_per_word];
  };
  const auto place = [&](std::int64_t j, std::int64_t l) {
    if (layout.l_per_word == 8) return int(l % 8);
    return layout.is_awq ? kAwqPlaces[j % 8] : int(j % 8);
  };
  // Words of 64 rows stay in cache while their elements are taken.
  const std::int64_t n = weight.dim(0), bytes = weight.dim(1);
  ctx.ParallelFor((n + 63) / 64, 4000 / (64 * bytes + 1) + 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t block = b; block < e; ++block) {
      const std::int64_t end = std::min(n, block * 64 + 64);
      for (std::int64_t first = 0; first < bytes; first += 64) {
        const std::int64_t last = std::min(bytes, first + 64);
        for (std::int64_t j = block * 64; j < end; ++j) {
          auto* to = weight.base<std::uint8_t>() + weight.row_offset(j);
          for (std::int64_t i = first; i < last; ++i) {
            const auto low = word(j, 2 * i) >> 4 * place(j, 2 * i) & 15;
            const auto high = word(j, 2 * i + 1) >> 4 * place(j, 2 * i + 1) & 15;
            to[i] = std::uint8_t(low | high << 4);
          }
        }
      }
    }
  });
}

}  // namespace

ANYOP_KERNEL(rows_u4){.run = Bind<&Run>()};

extern constinit const Op rows_u4{
    .signature =
        "rows_u4(words: dense i32[k8, n], layout: 'gptq') -> (weight: u8[n, 4*k8])\n"
        "rows_u4(words: dense i32[k, n8], layout: 'awq') -> (weight: u8[8*n8, k/2]) "
        "where k % 2 == 0\n"
        "rows_u4(words: dense i32[n, k8], layout: 'rows') -> (weight: u8[n, 4*k8])\n"
        "rows_u4(words: dense i32[n16, 2*k], layout: 'blocks16') -> (weight: u8[16*n16, k/2]) "
        "where k % 2 == 0",
};

}  // namespace anyop::ops
