// SPDX-License-Identifier: Apache-2.0
// Rows of a call brought into the form that products in registers take (attention/multiply.h), as
// floats, or as bf16 for dot instructions: rows of the one side as they lie, of the other
// transposed.
#pragma once
#include <algorithm>
#include <cstdint>

#include "anyop/op.h"
#include "anyop/simd/bytes.h"
#include "ops/common/attention/multiply.h"
#include "ops/common/attention/words.h"
#include "ops/common/transpose.h"

// A need of a kernel without dot instructions that comes before the one with them. On processors
// with tiles a dot instruction takes as long as four multiply-adds, which do twice as much:
// lightning_indexer takes 3.8 ms for 32,768 keys of bf16, with dot instructions 6.0.
#define ANYOP_WHERE_DOTS_ARE_SLOW ",amx_bf16"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kTileRows = 64;
inline constexpr std::int64_t kRowUnit = 16;  // a whole number of vectors on every machine

inline std::int64_t PadRow(std::int64_t n) { return (n + kRowUnit - 1) / kRowUnit * kRowUnit; }

// n elements of x from `offset` on as floats, then zeros up to a multiple of kRowUnit.
[[gnu::noinline]] inline void WidenRow(const Tensor& x, std::int64_t offset, std::int64_t n,
                                       float* to) {
  const auto widen = [&](auto zero) {
    const auto* from = x.base<const decltype(zero)>() + offset;
    ForLanes(n, [&](std::int64_t i, auto count) { Store(to + i, LoadAny(from + i, count)); });
  };
  switch (x.type()) {
    case DType::kF32:
      widen(float{});
      break;
    case DType::kF16:
      widen(F16{});
      break;
    case DType::kBF16:
      widen(BF16{});
      break;
    case DType::kI8:
      widen(std::int8_t{});
      break;
    default:
      widen(F8E4M3{});
  }
  for (std::int64_t i = (n + kLanes - 1) / kLanes * kLanes; i < PadRow(n); i += kLanes) {
    Store(to + i, Zero());
  }
}

// The elements that a row of width d takes in either form: floats, or pairs in blocks of 64 bf16.
template <class N>
constexpr N ProductRow(const N& d) {
  return N(32) * CeilDiv(d, N(32));
}

// Values as a product takes them: `columns` of row t, or of the rows of a pair.
template <class Element>
struct ProductValues {
  const Element* rows;
  std::int64_t row, count, columns;
};

struct FloatRows {
  using Element = float;
  static constexpr float kAll{};
  static constexpr int kWeightParts = 1;                         // whose sum a weight is
  static std::int64_t Terms(std::int64_t d) { return d; }        // of a product over d elements
  static std::int64_t Row(std::int64_t d) { return PadRow(d); }  // what LoadRow writes

  // n elements of x from `offset` on, then zeros up to a multiple of kRowUnit.
  static void LoadRow(const Tensor& x, std::int64_t offset, std::int64_t n, float* to) {
    WidenRow(x, offset, n, to);
  }

  // The scores s[t * row] of kLanes queries become weights; returns their sums.
  [[gnu::always_inline]] static F32 Weigh(float* s, std::int64_t row, int count, F32 base) {
    F32 sum = Zero();
    for (int t = 0; t < count; ++t) {
      const F32 p = Exp(Load(s + t * row) - base);
      Store(s + t * row, p);
      sum += p;
    }
    return sum;
  }
  // The first c elements of the rows of a tile. memory: [kTileRows / 2, c in blocks of 64].
  static ProductValues<float> MakeValues(const float* tile, std::int64_t row, int count,
                                         std::int64_t c, std::uint32_t*) {
    return {tile, row, count, PadRow(c)};
  }
  // Puts sums of values in the order of elements.
  static void OrderRow(float*, std::int64_t) {}
};

#if defined(__AVX512BF16__)
// Rows of bf16, i8 and f8e4m3, which are exact in bf16. Both sides of a product have one type: the
// order of the elements is the type's own.
struct PairRows {
  using Element = WordPair;
  static constexpr WordPair kAll = WordPair::kBoth;
  static constexpr int kWeightParts = 2;
  static std::int64_t Terms(std::int64_t d) { return (d + kWordBlock - 1) / kWordBlock * 32; }
  static std::int64_t Row(std::int64_t d) { return Terms(d); }

  [[gnu::noinline]] static void LoadRow(const Tensor& x, std::int64_t offset, std::int64_t n,
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

  // As that of FloatRows; weights become pairs of neighbouring keys, in the first of their rows the
  // upper parts, in the second the lower ones. count: even, or below kTileRows.
  [[gnu::always_inline]] static F32 Weigh(float* s, std::int64_t row, int count, F32 base) {
    F32 sum = Zero();
    for (int t = 0; t < count; t += 2) {
      const F32 first = Exp(Load(s + t * row) - base);
      F32 second = Zero();
      sum += first;
      if (t + 1 < count) sum += second = Exp(Load(s + (t + 1) * row) - base);
      StoreSplit(first, second, s + t * row, s + (t + 1) * row);
    }
    return sum;
  }
  static ProductValues<WordPair> MakeValues(const WordPair* tile, std::int64_t row, int count,
                                            std::int64_t c, std::uint32_t* memory) {
    const std::int64_t blocks = (c + kWordBlock - 1) / kWordBlock, columns = blocks * kWordBlock;
    for (int t = 0; t < count; t += 2) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        __m512i a[2], b[2] = {}, pairs[4];
        LoadBlock(tile + t * row + block * 32, a);
        if (t + 1 < count) LoadBlock(tile + (t + 1) * row + block * 32, b);
        PairWords(a, b, pairs);
        std::uint32_t* to = memory + t / 2 * columns + block * kWordBlock;
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) _mm512_storeu_si512(to + i * kLanes, pairs[i]);
      }
    }
    return {reinterpret_cast<const WordPair*>(memory), columns, (count + 1) / 2, columns};
  }
  // Of values of bf16 and i8.
  static void OrderRow(float* sums, std::int64_t row) {
    for (std::int64_t e = 0; e < row; e += kWordBlock) OrderSums<BF16>(sums + e);
  }

 private:
  [[gnu::always_inline]] static void LoadBlock(const WordPair* p, __m512i (&words)[2]) {
    words[0] = _mm512_loadu_si512(p);
    words[1] = _mm512_loadu_si512(p + 16);
  }
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
