// SPDX-License-Identifier: Apache-2.0
// A small matrix product in registers, of f32, or of pairs of bf16 where there are dot
// instructions. Each sum is f32 and in rising order of k.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "anyop/simd.h"
#include "ops/common/attention/layout.h"
#include "ops/common/dot_bf16.h"
#include "ops/common/registers.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class E>
struct Matrix {
  const E* data;
  std::int64_t row, column;  // strides in elements
};

// c[i, j] (+)= sum over k in [k0, k1) of a(i, k) * b(k, j); rows of b and c are contiguous.
// E: float or WordPair, whose product is that of both words, added.
template <class E>
struct TileProduct {
  Matrix<E> a;  // row i, column k
  const E* b;
  std::int64_t b_row;
  std::int64_t k0, k1;
  float* c;
  std::int64_t c_row;
  bool add;  // else c is overwritten
  E mask{};  // of b: the words of a pair that count; all of a float does
};
using FloatTileProduct = TileProduct<float>;

[[gnu::always_inline]] inline F32 LoadFactor(const float* b, float) { return Load(b); }
[[gnu::always_inline]] inline F32 Repeat(float a) { return Set(a); }
[[gnu::always_inline]] inline F32 AddProduct(F32 a, F32 b, F32 sum) { return Fma(a, b, sum); }

#if defined(__AVX512BF16__)
[[gnu::always_inline]] inline __m512i LoadFactor(const WordPair* b, WordPair mask) {
  const __m512i words = _mm512_loadu_si512(b);
  if (mask == WordPair::kBoth) [[likely]]
    return words;
  return _mm512_and_si512(words, _mm512_set1_epi32(int(mask)));
}
[[gnu::always_inline]] inline __m512i Repeat(WordPair a) { return _mm512_set1_epi32(int(a)); }
[[gnu::always_inline]] inline F32 AddProduct(__m512i a, __m512i b, F32 sum) {
  return AddDots(sum, a, b);
}
#endif

template <int kRows, int kVectors, class E>
[[gnu::always_inline]] inline void MultiplyTile(const TileProduct<E>& p, std::int64_t i,
                                                std::int64_t j) {
  F32 sum[kRows][kVectors];
  float* c = p.c + i * p.c_row + j;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = p.add ? Load(c + r * p.c_row + v * kLanes) : Zero();
    }
  }
  const E* a = p.a.data + i * p.a.row + p.k0 * p.a.column;
  const E* b = p.b + p.k0 * p.b_row + j;
  for (std::int64_t k = p.k0; k < p.k1; ++k, a += p.a.column, b += p.b_row) {
    decltype(LoadFactor(b, p.mask)) x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = LoadFactor(b + v * kLanes, p.mask);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto w = Repeat(a[r * p.a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = AddProduct(w, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Store(c + r * p.c_row + v * kLanes, sum[r][v]);
  }
}

// 24 sums in 32 registers, 8 in 16: the rest is for the operands.
inline constexpr int kProductRows = kVectorRegisters == 32 ? 6 : 4;
inline constexpr int kProductVectors = kVectorRegisters == 32 ? 4 : 2;

template <int kVectors, class E>
inline void MultiplyColumns(const TileProduct<E>& p, std::int64_t i, std::int64_t rows,
                            std::int64_t j) {
  const std::int64_t end = i + rows;
  for (; i + kProductRows <= end; i += kProductRows) MultiplyTile<kProductRows, kVectors>(p, i, j);
  switch (end - i) {
    case 1:
      return MultiplyTile<1, kVectors>(p, i, j);
    case 2:
      return MultiplyTile<2, kVectors>(p, i, j);
    case 3:
      return MultiplyTile<3, kVectors>(p, i, j);
    case 4:
      return MultiplyTile<4, kVectors>(p, i, j);
    case 5:
      return MultiplyTile<5, kVectors>(p, i, j);
    default:
      return;
  }
}

// Rows [i, i + rows), columns [0, columns); columns is a multiple of the vector width.
template <class E>
inline void Multiply(const TileProduct<E>& p, std::int64_t i, std::int64_t rows,
                     std::int64_t columns) {
  if (rows <= 0 || (p.add && p.k0 >= p.k1)) return;
  std::int64_t j = 0;
  for (; j + kProductVectors * kLanes <= columns; j += kProductVectors * kLanes) {
    MultiplyColumns<kProductVectors>(p, i, rows, j);
  }
  for (; j < columns; j += kLanes) MultiplyColumns<1>(p, i, rows, j);
}

// Where rows [0, rows) of c have ranges of k of their own: calls f(i, count, range) so that each
// row gets its range in rising order, neighbours together where they share it. What lies outside
// may hold NaN, which a factor of 0 would not stop.
template <class Range, class F>
[[gnu::always_inline]] inline void ForSharedRanges(const Range* range, int rows, F&& f) {
  for (int first = 0; first < rows; first += kProductRows) {
    const int n = std::min(kProductRows, rows - first);
    Range every = range[first];
    for (int i = 1; i < n; ++i) {
      every = {std::max(every.begin, range[first + i].begin),
               std::min(every.end, range[first + i].end)};
    }
    if (every.begin >= every.end) {
      for (int i = first; i < first + n; ++i) f(i, 1, range[i]);
      continue;
    }
    for (int i = first; i < first + n; ++i) f(i, 1, Range{range[i].begin, every.begin});
    f(first, n, every);
    for (int i = first; i < first + n; ++i) f(i, 1, Range{every.end, range[i].end});
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
