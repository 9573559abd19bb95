// SPDX-License-Identifier: Apache-2.0
// y = activation(x weight^T + bias) with the weight as it is, [n, k]: dot products of rows.
//
// A sum has kLanes partial sums (one per lane) in ascending k, added in a fixed tree, whatever the
// shape of the tile: a row has the same bits alone and in a batch.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/gemm_call.h"
#include "ops/common/gemm_tile.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Rows of x that share sums on the stack.
inline constexpr std::int64_t kRowGroup = 48;

// Rows of x in a tile, by 4 rows of the weight: 24, 16 or 8 sums beside the operands.
template <class M>
inline constexpr int kRowsOfX = kLanes < 16                         ? 2
                                : sizeof(typename M::Operand) == 64 ? 6
                                                                    : 4;

// sums[i][j] for kR rows of x and kN rows of the weight. ahead: elements from a row of the weight
// to what is prefetched.
template <class M, int kR, int kN>
[[gnu::noinline]] void MultiplyRows(const typename M::Weight* const* x,
                                    const typename M::Weight* const* w, std::int64_t k,
                                    std::int64_t ahead, float* sums) {
  using T = typename M::Weight;
  F32 sum[kR][kN];
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) sum[i][j] = Zero();
  }
  const auto step = [&](auto&& row_of_x, auto&& row_of_w) [[gnu::always_inline]] {
    typename M::Operand a[kR];
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) a[i] = M::LoadWeight(row_of_x(i));
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      const auto b = M::LoadWeight(row_of_w(j));
#pragma GCC unroll 8
      for (int i = 0; i < kR; ++i) M::Mac(sum[i][j], b, a[i]);
    }
  };
  std::int64_t l = 0;
  for (; l + M::kElements <= k; l += M::kElements) {
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) Prefetch(w[j] + l + ahead);
    step([&](int i) { return x[i] + l; }, [&](int j) { return w[j] + l; });
  }
  if (l < k) {  // the tail, with zeros after it
    T tail[kR + kN][M::kElements];
    std::memset(tail, 0, sizeof(tail));
    const std::size_t bytes = std::size_t(k - l) * sizeof(T);
    for (int i = 0; i < kR; ++i) std::memcpy(tail[i], x[i] + l, bytes);
    for (int j = 0; j < kN; ++j) std::memcpy(tail[kR + j], w[j] + l, bytes);
    step([&](int i) { return tail[i]; }, [&](int j) { return tail[kR + j]; });
  }
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kN; j += 4) {
      const F32 four[4] = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
      SumLanes(four, sums + i * kPanel + j);
    }
  }
}

// Rows of the weight [32 panel, ...) by rows [first, first + rows) of x, rows <= kRowGroup.
template <class M>
struct RowProduct {
  using T = typename M::Weight;
  const Product& p;
  const T* weight;
  std::int64_t stride;  // of a row of the weight

  void Multiply(std::int64_t first, std::int64_t rows, std::int64_t panel) const {
    alignas(64) float sums[kRowGroup * kPanel];
    if (rows == 1) {
      Columns<1, kLanes >= 8 ? 8 : 4>(first, rows, panel, sums);
    } else {
      Columns<kRowsOfX<M>, 4>(first, rows, panel, sums);
    }
    StorePanel<T>(p, sums, first, rows, panel);
  }

 private:
  // Beyond n the last row is multiplied again, and not stored.
  template <int kMaxR, int kN>
  void Columns(std::int64_t first, std::int64_t rows, std::int64_t panel, float* sums) const {
    // One tile ahead if that is near, else further along the same rows.
    const std::int64_t tile = kN * stride;
    const std::int64_t size = sizeof(T);
    const std::int64_t ahead = tile * size <= 32768 ? tile : 1024 / size;
    for (int column = 0; column < kPanel && panel * kPanel + column < p.n; column += kN) {
      const T* w[kN];
      for (int j = 0; j < kN; ++j) {
        const std::int64_t row = panel * kPanel + column + j;
        w[j] = weight + (row < p.n ? row : p.n - 1) * stride;
      }
      for (std::int64_t i = 0; i < rows; i += kMaxR) {
        VisitRows<kMaxR>(rows - i, [&](auto r) {
          const T* x[r.value];
          for (int u = 0; u < r.value; ++u) {
            x[u] = p.x.base<const T>() + p.x.row_offset(first + i + u);
          }
          MultiplyRows<M, r.value, kN>(x, w, p.k, ahead, sums + i * kPanel + column);
        });
      }
    }
  }
};

template <class M>
inline void MultiplyByRows(const Context& ctx, const Product& p, const Tensor& weight) {
  const RowProduct<M> product{p, weight.base<const typename M::Weight>(), weight.stride(0)};
  const std::int64_t groups = (p.rows + kRowGroup - 1) / kRowGroup;
  const std::int64_t rows = p.rows < kRowGroup ? p.rows : kRowGroup;
  ctx.ParallelFor(groups * p.panels(), PanelGrain<typename M::Weight>(rows, p.k),
                  [&](std::int64_t b, std::int64_t e) {
                    for (std::int64_t i = b; i < e; ++i) {
                      const std::int64_t first = i / p.panels() * kRowGroup;
                      const std::int64_t left = p.rows - first;
                      product.Multiply(first, left < kRowGroup ? left : kRowGroup, i % p.panels());
                    }
                  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
