// SPDX-License-Identifier: Apache-2.0
// y = left right for few rows, with both matrices as they lie: nothing is packed, every row of the
// right side is read along its columns and multiplied by one element of each row of the left.
//
// A sum is one chain of additions in ascending order, whatever the shape of the tile.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/common/gemm/call.h"
#include "ops/common/gemm/tile.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The most rows. Beyond, packing the right side pays; below, it costs more than it gains: [16, 128]
// by [128, 512] in f32 takes less than half the time as it lies.
inline constexpr std::int64_t kFewRows = 16;
// The most rows of a tile, and the number of panels of 32 columns beside each other, whose sums fit
// the registers.
inline constexpr int kFewRowsOfTile = kLanes == 16 ? 6 : kLanes == 8 ? 3 : 1;
inline constexpr int kVectorsOfPanel = kPanel / kLanes;
constexpr int FewPanels(int rows) {
  const int panels = kSums / (rows * kVectorsOfPanel);
  return panels < 1 ? 1 : panels > 8 ? 8 : panels;
}

// Matrices [rows, k] and [k, n]: element (i, l) of the left is at left[i * row + l * step].
template <class T>
struct FewRows {
  static constexpr std::int64_t kChunk = 128;  // terms whose left side is converted at a time
  static constexpr std::int64_t kAhead = 8;    // rows of the right that are asked for

  const DenseProduct<T>& p;
  const T* left;
  std::int64_t row, step;
  const T* right;
  std::int64_t stride;

  // Columns from `column` on: kP whole panels, or up to 32 columns where the count is an int.
  template <int kR, int kP, class Columns>
  [[gnu::noinline]] void Tile(std::int64_t first, std::int64_t column, Columns columns) const {
    constexpr int kV = kP * kVectorsOfPanel;
    constexpr int kLines = (kP * kPanel * int(sizeof(T)) + 63) / 64;
    F32 sum[kR][kV];
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) sum[i][v] = Zero();
    }
    float x[kR][kChunk];
    for (std::int64_t begin = 0; begin < p.k; begin += kChunk) {
      const std::int64_t end = std::min(p.k, begin + kChunk);
      for (int i = 0; i < kR; ++i) ReadLeft(first + i, begin, end, x[i]);
      for (std::int64_t l = begin; l < end; ++l) {
        const T* r = right + l * stride + column;
        // Behind the last row come the first rows of the next columns, whose use is near.
        const std::int64_t ahead =
            l + kAhead < p.k ? kAhead * stride : (kAhead - p.k) * stride + kP * kPanel;
#pragma GCC unroll 16
        for (int line = 0; line < kLines; ++line) {
          Prefetch(reinterpret_cast<const char*>(r + ahead) + line * 64);
        }
        F32 w[kV];
#pragma GCC unroll 16
        for (int v = 0; v < kV; ++v) w[v] = LoadN(r + v * kLanes, CountAt(columns, v));
#pragma GCC unroll 8
        for (int i = 0; i < kR; ++i) {
          const F32 a = Set(x[i][l - begin]);
#pragma GCC unroll 16
          for (int v = 0; v < kV; ++v) sum[i][v] = Fma(w[v], a, sum[i][v]);
        }
      }
    }
    alignas(64) float sums[kP][kR][kPanel];
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) {
        Store(sums[v / kVectorsOfPanel][i] + v % kVectorsOfPanel * kLanes, sum[i][v]);
      }
    }
    for (int i = 0; i < kP; ++i) p.StorePanel(sums[i][0], first, kR, column / kPanel + i);
  }

  // All rows by panels [begin, end).
  void Run(std::int64_t begin, std::int64_t end) const {
    const std::int64_t whole = std::min(end, p.n / kPanel);
    const std::int64_t blocks = (p.rows + kFewRowsOfTile - 1) / kFewRowsOfTile;
    const std::int64_t block = (p.rows + blocks - 1) / blocks;
    const int wide = FewPanels(int(block));
    for (std::int64_t panel = begin; panel < end;) {
      const std::int64_t count = panel + wide <= whole ? wide : 1;
      for (std::int64_t i = 0; i < p.rows; i += block) {
        VisitRows<kFewRowsOfTile>(std::min(block, p.rows - i),
                                  [&](auto r) { RunTile<r.value>(i, panel, count); });
      }
      panel += count;
    }
  }

 private:
  static constexpr Full CountAt(Full, int) { return {}; }
  static int CountAt(int columns, int v) {
    return std::clamp(columns - v * kLanes, 0, int(kLanes));
  }
  // The last block may have fewer rows, and takes the same panels in narrower tiles.
  template <int kR>
  void RunTile(std::int64_t first, std::int64_t panel, std::int64_t count) const {
    constexpr int kP = FewPanels(kR);
    std::int64_t i = panel;
    for (; i + kP <= panel + count && (i + kP) * kPanel <= p.n; i += kP) {
      Tile<kR, kP>(first, i * kPanel, kFull);
    }
    for (; i < panel + count; ++i) {
      const std::int64_t columns = std::min<std::int64_t>(p.n - i * kPanel, kPanel);
      Tile<kR, 1>(first, i * kPanel, int(columns));
    }
  }
  void ReadLeft(std::int64_t i, std::int64_t begin, std::int64_t end, float* x) const {
    const T* from = left + i * row + begin * step;
    if (step == 1) {
      return ForLanes(end - begin, [&](std::int64_t l, auto count) [[gnu::always_inline]] {
        StoreN(x + l, LoadN(from + l, count), count);
      });
    }
    for (std::int64_t l = 0; l < end - begin; ++l) x[l] = float(from[l * step]);
  }
};

// At most kFewRows rows.
template <class T>
inline void MultiplyFewRows(const Context& ctx, const FewRows<T>& product) {
  const DenseProduct<T>& p = product.p;
  ctx.ParallelFor(p.panels(), PanelGrain<T>(p.rows, p.k),
                  [&](std::int64_t b, std::int64_t e) { product.Run(b, e); });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
