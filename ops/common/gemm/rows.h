// SPDX-License-Identifier: Apache-2.0
// y = activation(x weight^T + bias) with the weight as it is, [n, k]: dot products of rows.
//
// A sum has kLanes partial sums (one per lane) in ascending k, added in a fixed tree, whatever the
// shape of the tile.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/call.h"
#include "ops/common/gemm/tile.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The most rows of x. Beyond, packing the weight on the way is faster; for 16 rows of bf16 by
// [4096, 4096] it takes twice as long.
inline constexpr std::int64_t kMaxRows = 16;

// sums[i][j] for kR rows of x and 4 rows of the weight. Meanwhile as many bytes are brought from
// `ahead` on, in order, into cache level kLevel. Four short streams at once are too many for the
// prefetcher of the processor: with this one, rows of 576 come at 35 GB/s, not at 15 to 20.
template <TileMath M, int kR, int kLevel>
[[gnu::noinline]] void MultiplyRows(const typename M::Weight* const* x,
                                    const typename M::Weight* const* w, std::int64_t k,
                                    const char* ahead, typename M::Sum* sums) {
  using T = typename M::Weight;
  constexpr int kStepBytes = 4 * M::kElements * sizeof(T);
  typename M::Sums sum[kR][4];
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[i][j] = M::Zero();
  }
  const auto step = [&](auto&& row_of_x, auto&& row_of_w) [[gnu::always_inline]] {
    typename M::Operand a[kR];
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) a[i] = M::LoadWeight(row_of_x(i));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const auto b = M::LoadWeight(row_of_w(j));
#pragma GCC unroll 8
      for (int i = 0; i < kR; ++i) M::Mac(sum[i][j], b, a[i]);
    }
  };
  std::int64_t l = 0;
  for (; l + M::kElements <= k; l += M::kElements, ahead += kStepBytes) {
#pragma GCC unroll 4
    for (int i = 0; i < kStepBytes; i += 64) __builtin_prefetch(ahead + i, 0, 4 - kLevel);
    step([&](int i) { return x[i] + l; }, [&](int j) { return w[j] + l; });
  }
  if (l < k) {  // the tail, with zeros after it
    T tail[kR + 4][M::kElements];
    std::memset(tail, 0, sizeof(tail));
    const std::size_t bytes = std::size_t(k - l) * sizeof(T);
    for (int i = 0; i < kR; ++i) std::memcpy(tail[i], x[i] + l, bytes);
    for (int j = 0; j < 4; ++j) std::memcpy(tail[kR + j], w[j] + l, bytes);
    step([&](int i) { return tail[i]; }, [&](int j) { return tail[kR + j]; });
  }
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) M::SumLanes(sum[i], sums + i * kPanel);
}

// The same for a number of rows of x that is known at run time, at most M::kRowsOfX; compiled as
// Tiles is.
template <TileMath M>
struct RowTiles {
  using T = typename M::Weight;
  static void Multiply(std::int64_t rows, bool to_first_level, const T* const* x, const T* const* w,
                       std::int64_t k, const char* ahead, typename M::Sum* sums);
};
template <TileMath M>
void RowTiles<M>::Multiply(std::int64_t rows, bool to_first_level, const T* const* x,
                           const T* const* w, std::int64_t k, const char* ahead,
                           typename M::Sum* sums) {
  VisitRows<M::kRowsOfX>(rows, [&](auto r) {
    if (to_first_level) return MultiplyRows<M, r.value, 1>(x, w, k, ahead, sums);
    MultiplyRows<M, r.value, 2>(x, w, k, ahead, sums);
  });
}
extern template struct RowTiles<PairMath<float>>;
extern template struct RowTiles<PairMath<F16>>;
extern template struct RowTiles<SplitMath>;
#if defined(__AVX512BF16__)
extern template struct RowTiles<BF16DotMath>;
#endif

// Rows of the weight by all rows of x, at most kMaxRows.
template <class M, RowsProduct P>
struct RowProduct {
  using T = typename M::Weight;
  using Sum = typename M::Sum;
  static_assert(std::same_as<T, typename P::Element> && std::same_as<Sum, typename P::Sum>);
  const P& p;
  const T* weight;
  std::int64_t stride;  // of a row of the weight

  // Beyond n the last row is multiplied again, and not stored.
  void Multiply(std::int64_t panel) const {
    alignas(64) Sum sums[kMaxRows * kPanel];
    const std::int64_t begin = panel * kPanel, end = begin + kPanel < p.n ? begin + kPanel : p.n;
    for (std::int64_t row = begin; row < end; row += 4) {
      const T* w[4];
      for (int j = 0; j < 4; ++j) w[j] = weight + (row + j < p.n ? row + j : p.n - 1) * stride;
      for (std::int64_t first = 0; first < p.rows; first += M::kRowsOfX) {
        const std::int64_t rows = p.rows - first < M::kRowsOfX ? p.rows - first : M::kRowsOfX;
        Tile(rows, w, first, sums + first * kPanel + (row - begin));
      }
    }
    p.StorePanel(sums, 0, p.rows, panel);
  }

 private:
  // The next tile goes to the first level if both and the rows of x fit.
  void Tile(std::int64_t rows, const T* const* w, std::int64_t first, Sum* sums) const {
    const T* x[M::kRowsOfX];
    for (std::int64_t i = 0; i < rows; ++i) x[i] = p.row(first + i);
    const char* ahead = reinterpret_cast<const char*>(w[0] + 4 * stride);
    const bool fits = (rows + 8) * p.k * std::int64_t(sizeof(T)) <= 32768;
    RowTiles<M>::Multiply(rows, fits, x, w, p.k, ahead, sums);
  }
};

// Copies of the rows of x, in whole lines. Where rows are a multiple of 4096 bytes apart, they and
// the rows of the weight would share one set of the first level of cache.
template <class T, class N>
struct CopiesWorkspace : Workspace<N> {
  N pitch;               // bytes
  Part<char, N> copies;  // [rows][pitch]
  constexpr CopiesWorkspace(N rows, N k)
      : pitch(LineBytes(k, sizeof(T)) + N(64)), copies(this->template Add<char>(rows * pitch)) {}
};
template <class T>
inline DenseProduct<T, CopiedRows<T>> CopyRows(const Context& ctx, const DenseProduct<T>& p) {
  const CopiesWorkspace<T, std::int64_t> parts(p.rows, p.k);
  char* copies = Placed(ctx, parts)[parts.copies];
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::memcpy(copies + r * parts.pitch, p.row(r), std::size_t(p.k) * sizeof(T));
  }
  return {p, {copies, parts.pitch}, p.rows, p.k};
}

// At most kMaxRows rows of x.
template <class M, RowsProduct P>
inline void MultiplyByRows(const Context& ctx, const P& p, const Tensor& weight) {
  const RowProduct<M, P> product{p, weight.base<const typename M::Weight>(), weight.stride(0)};
  ctx.ParallelFor(p.panels(), PanelGrain<typename M::Weight>(p.rows, p.k),
                  [&](std::int64_t b, std::int64_t e) {
                    for (std::int64_t i = b; i < e; ++i) product.Multiply(i);
                  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
