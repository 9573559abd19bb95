// SPDX-License-Identifier: Apache-2.0
// Rows of a call brought into the form that products in registers take (attention/multiply.h): the
// ones as they lie, the others transposed. floats, or bf16 for dot instructions.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/attention/multiply.h"
#include "ops/common/attention/words.h"
#include "ops/common/row_tiles.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The elements that a row of width d takes in either form: floats, or pairs in blocks of 64 bf16.
template <class N>
constexpr N ProductRow(const N& d) {
  return N(32) * CeilDiv(d, N(32));
}

struct FloatRows {
  using Element = float;
  static constexpr float kAll{};
  static std::int64_t Terms(std::int64_t d) { return d; }

  // n elements of x from `offset` on, then zeros up to a multiple of kRowUnit.
  static void Load(const Tensor& x, std::int64_t offset, std::int64_t n, float* to) {
    WidenRow(x, offset, n, to);
  }
};

#if defined(__AVX512BF16__)
// Of bf16, i8 and f8e4m3, which are exact in bf16. Both sides of a product have one type: the order
// of the elements is the type's own.
struct PairRows {
  using Element = WordPair;
  static constexpr WordPair kAll = WordPair::kBoth;
  static std::int64_t Terms(std::int64_t d) { return (d + kWordBlock - 1) / kWordBlock * 32; }

  [[gnu::noinline]] static void Load(const Tensor& x, std::int64_t offset, std::int64_t n,
                                     WordPair* to) {
    switch (x.type()) {
      case DType::kBF16:
        return LoadBlocks(x.base<const BF16>() + offset, n, to);
      case DType::kI8:
        return LoadBlocks(x.base<const std::int8_t>() + offset, n, to);
      default:
        return LoadBlocks(x.base<const F8E4M3>() + offset, n, to);
    }
  }

 private:
  template <class C>
  static void LoadBlocks(const C* from, std::int64_t n, WordPair* to) {
    const auto load = [&](std::int64_t e, auto count) [[gnu::always_inline]] {
      __m512i x[2];
      LoadWords(from + e, count, x);
      _mm512_storeu_si512(to + e / 2, x[0]);
      _mm512_storeu_si512(to + e / 2 + 16, x[1]);
    };
    std::int64_t e = 0;
    for (; e + kWordBlock <= n; e += kWordBlock) load(e, ops::kAll);
    if (e < n) load(e, int(n - e));
  }
};
#endif

// to[k * to_row + i] = rows[i * row + k] for i < kLanes and k < row, a multiple of kLanes.
template <class Element>
inline void TransposeRows(const Element* rows, std::int64_t row, Element* to, std::int64_t to_row) {
  for (std::int64_t k = 0; k < row; k += kLanes) {
    Square<std::uint32_t>::Transpose(reinterpret_cast<const char*>(rows + k), row * 4,
                                     reinterpret_cast<char*>(to + k * to_row), to_row * 4);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
