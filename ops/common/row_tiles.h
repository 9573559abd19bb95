// SPDX-License-Identifier: Apache-2.0
// Products of a few rows of floats with a tile of rows, which the caller widened to f32 once for
// all of them. A row's bits depend on that row and the tile alone.
#pragma once
#include <algorithm>
#include <cstdint>

#include "anyop/op.h"
#include "ops/common/attention/lanes.h"  // SumFour
#include "ops/common/registers.h"

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

// Rows of `width` floats, a multiple of kRowUnit, one after the other.
struct FloatTile {
  const float* rows;
  std::int64_t width;
  int count;  // at most kTileRows
};

// products[r * kTileRows + t] = rows[r] . tile[t]; what follows the tile's count, up to a multiple
// of 4, is overwritten too.
template <int kN>
[[gnu::noinline]] inline void DotRows(const float* rows, const FloatTile& tile, float* products) {
  constexpr int kKeys = kVectorRegisters / 8;  // by 4 rows: half the registers hold sums
  for (int t = 0; t < tile.count; t += 4) {
    F32 sum[4][kN];
#pragma GCC unroll 2
    for (int first = 0; first < 4; first += kKeys) {
      const float* key[kKeys];
      for (int i = 0; i < kKeys; ++i) {
        key[i] = tile.rows + std::min(t + first + i, tile.count - 1) * tile.width;
      }
      F32 part[kKeys][kN];
      for (auto& of_key : part) {
        for (F32& s : of_key) s = Zero();
      }
      for (std::int64_t e = 0; e < tile.width; e += kLanes) {
#pragma GCC unroll 4
        for (int r = 0; r < kN; ++r) {
          const F32 x = Load(rows + r * tile.width + e);
#pragma GCC unroll 4
          for (int i = 0; i < kKeys; ++i) part[i][r] = Fma(Load(key[i] + e), x, part[i][r]);
        }
      }
      for (int i = 0; i < kKeys; ++i) std::copy_n(part[i], kN, sum[first + i]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
      SumFour(sum[0][r], sum[1][r], sum[2][r], sum[3][r], products + r * kTileRows + t);
    }
  }
}
inline void DotAllRows(const float* rows, std::int64_t n, const FloatTile& tile, float* products) {
  std::int64_t r = 0;
  for (; r + 4 <= n; r += 4) DotRows<4>(rows + r * tile.width, tile, products + r * kTileRows);
  for (; r < n; ++r) DotRows<1>(rows + r * tile.width, tile, products + r * kTileRows);
}

// sums[r][e] += sum over t of weights[r * kTileRows + t] * tile[t][e] for kN rows and kWide
// vectors from column e on; rows of sums are `row` floats long.
template <int kN, int kWide>
[[gnu::always_inline]] inline void AddWeighedColumns(const float* weights, const FloatTile& tile,
                                                     std::int64_t e, float* sums,
                                                     std::int64_t row) {
  F32 sum[kN][kWide];
#pragma GCC unroll 4
  for (int r = 0; r < kN; ++r) LoadAll(sum[r], sums + r * row + e, kFull);
  for (int t = 0; t < tile.count; ++t) {
    F32 x[kWide];
    LoadAll(x, tile.rows + t * tile.width + e, kFull);
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
      const F32 w = Set(weights[r * kTileRows + t]);
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) sum[r][j] = Fma(w, x[j], sum[r][j]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kN; ++r) StoreAll(sums + r * row + e, sum[r], kFull);
}

// The same for all columns below `row`, a multiple of kRowUnit, of n rows. A column's piece of the
// tile stays in the first cache for all rows.
[[gnu::noinline]] inline void AddWeighedRows(const float* weights, std::int64_t n,
                                             const FloatTile& tile, float* sums, std::int64_t row) {
  constexpr int kWide = kVectorRegisters / 8;
  const auto add = [&](std::int64_t e, auto wide) [[gnu::always_inline]] {
    std::int64_t r = 0;
    for (; r + 4 <= n; r += 4) {
      AddWeighedColumns<4, wide>(weights + r * kTileRows, tile, e, sums + r * row, row);
    }
    for (; r < n; ++r) {
      AddWeighedColumns<1, wide>(weights + r * kTileRows, tile, e, sums + r * row, row);
    }
  };
  std::int64_t e = 0;
  for (; e + kWide * kLanes <= row; e += kWide * kLanes) {
    add(e, std::integral_constant<int, kWide>{});
  }
  for (; e < row; e += kLanes) add(e, std::integral_constant<int, 1>{});
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
