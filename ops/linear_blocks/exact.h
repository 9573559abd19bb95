// SPDX-License-Identifier: Apache-2.0
// Blocks of a weight as the right side of a product in f32.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/gemm/chunks.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Column j is row j of the weight, decoded.
struct RightBlocks {
  const std::uint8_t* weight;
  std::int64_t elements;  // of a row
  std::string_view format;

  // A chunk may begin and end within a block, at an even element.
  void Pack(std::int64_t first, std::int64_t count, std::int64_t column, std::int64_t columns,
            float* out) const {
    VisitFormat(format,
                [&](auto f) { PackDecoded<decltype(f)>(first, count, column, columns, out); });
  }

 private:
  template <class F>
  [[gnu::noinline]] void PackDecoded(std::int64_t first, std::int64_t count, std::int64_t column,
                                     std::int64_t columns, float* out) const {
    constexpr std::int64_t kElements = kElementsOf<F>;
    alignas(64) float decoded[kPanel][kElements];
    const std::int64_t blocks = elements / kElements;
    const std::int64_t end = first + count;
    for (std::int64_t l = first; l < end;) {
      const std::int64_t block = l / kElements, next = std::min((block + 1) * kElements, end);
      for (std::int64_t j = 0; j < columns; ++j) {
        DecodeBlock<F>(weight + ((column + j) * blocks + block) * F::kBytes, decoded[j]);
      }
      PackPanel(decoded[0] + l % kElements, kElements, columns, next - l,
                out + (l - first) * kPanel);
      l = next;
    }
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
