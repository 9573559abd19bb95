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

// The most rows of x: beyond, packing the weight on the way is faster.
inline constexpr std::int64_t kMaxRows = 16;

// Rows of x in a tile, by 4 rows of the weight: 24, 16 or 8 sums beside the operands.
template <class M>
inline constexpr int kRowsOfX = [] {
  if constexpr (requires { M::kRowsOfX; }) return M::kRowsOfX;
  return kVectorRegisters < 32 ? 2 : sizeof(typename M::Operand) == 64 ? 6 : 4;
}();

// sums[i][j] for kR rows of x and 4 rows of the weight. Meanwhile as many bytes are brought from
// `ahead` on, in order, into cache level kLevel: four short streams at once are too many for the
// prefetcher of the processor.
template <class M, int kR, int kLevel>
[[gnu::noinline]] void MultiplyRows(const typename M::Weight* const* x,
                                    const typename M::Weight* const* w, std::int64_t k,
                                    const char* ahead, float* sums) {
  using T = typename M::Weight;
  constexpr int kStepBytes = 4 * M::kElements * sizeof(T);
  F32 sum[kR][4];
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[i][j] = Zero();
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
  for (int i = 0; i < kR; ++i) {
    if constexpr (requires { M::SumLanes(sum[i], sums); }) {
      M::SumLanes(sum[i], sums + i * kPanel);
    } else {
      SumLanes(sum[i], sums + i * kPanel);
    }
  }
}

// Rows of the weight by all rows of x, at most kMaxRows.
template <class M, class P>
struct RowProduct {
  using T = typename M::Weight;
  const P& p;
  const T* weight;
  std::int64_t stride;  // of a row of the weight

  // Beyond n the last row is multiplied again, and not stored.
  void Multiply(std::int64_t panel) const {
    alignas(64) float sums[kMaxRows * kPanel];
    const std::int64_t begin = panel * kPanel, end = begin + kPanel < p.n ? begin + kPanel : p.n;
    for (std::int64_t row = begin; row < end; row += 4) {
      const T* w[4];
      for (int j = 0; j < 4; ++j) w[j] = weight + (row + j < p.n ? row + j : p.n - 1) * stride;
      for (std::int64_t first = 0; first < p.rows; first += kRowsOfX<M>) {
        VisitRows<kRowsOfX<M>>(p.rows - first, [&](auto r) {
          Tile<r.value>(w, first, sums + first * kPanel + (row - begin));
        });
      }
    }
    StorePanel<T>(p, sums, 0, p.rows, panel);
  }

 private:
  // The next tile goes to the first level if both and the rows of x fit.
  template <int kR>
  void Tile(const T* const* w, std::int64_t first, float* sums) const {
    const T* x[kR];
    for (int i = 0; i < kR; ++i) x[i] = p.template row<T>(first + i);
    const char* ahead = reinterpret_cast<const char*>(w[0] + 4 * stride);
    if ((kR + 8) * p.k * std::int64_t(sizeof(T)) <= 32768) {
      MultiplyRows<M, kR, 1>(x, w, p.k, ahead, sums);
    } else {
      MultiplyRows<M, kR, 2>(x, w, p.k, ahead, sums);
    }
  }
};

// A product whose rows of x are copies: where they are a multiple of 4096 bytes apart, they and the
// rows of the weight would share one set of the first level of cache.
struct ProductOfCopies : Product {
  const char* copies;
  std::int64_t pitch;  // bytes

  template <class T>
  [[gnu::always_inline]] const T* row(std::int64_t r) const {
    return reinterpret_cast<const T*>(copies + r * pitch);
  }
};
template <class T, class N>
struct CopiesWorkspace : Workspace<N> {
  N pitch;               // bytes
  Part<char, N> copies;  // [rows][pitch]
  constexpr CopiesWorkspace(N rows, N k)
      : pitch(LineBytes(k, sizeof(T)) + N(64)), copies(this->template Add<char>(rows * pitch)) {}
};
template <class T>
inline ProductOfCopies CopyRows(const Context& ctx, const Product& p) {
  const CopiesWorkspace<T, std::int64_t> parts(p.rows, p.k);
  char* copies = Placed(ctx, parts)[parts.copies];
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::memcpy(copies + r * parts.pitch, p.row<T>(r), std::size_t(p.k) * sizeof(T));
  }
  return {p, copies, parts.pitch};
}

// At most kMaxRows rows of x.
template <class M, class P>
inline void MultiplyByRows(const Context& ctx, const P& p, const Tensor& weight) {
  const RowProduct<M, P> product{p, weight.base<const typename M::Weight>(), weight.stride(0)};
  ctx.ParallelFor(p.panels(), PanelGrain<typename M::Weight>(p.rows, p.k),
                  [&](std::int64_t b, std::int64_t e) {
                    for (std::int64_t i = b; i < e; ++i) product.Multiply(i);
                  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
