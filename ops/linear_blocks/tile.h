// SPDX-License-Identifier: Apache-2.0
// The product of quantized rows of x and a packed group of 16 rows of the weight.
//
//   w     [blocks] packed blocks, as pack.h says
//   x     [blocks][rows] quantized blocks, rows <= kTileRows
//   sums  [rows][16] f32
//
// The products of a block are added exactly in integers, the blocks in ascending order in f32, so a
// row has the same bits whatever the shape of the tile.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/linear_blocks/lanes.h"
#include "ops/linear_blocks/quantized.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kTileRows = kLanes == 16 ? 8 : kLanes == 8 ? 4 : 2;

// Quants [4 g, 4 g + 4) of kLanes rows in each of q[g].
template <class F>
[[gnu::always_inline]] inline void LoadQuants(const char* w, I32 (&q)[8]) {
  if constexpr (F::kBits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) q[g] = LoadInts(w + 64 * g);
  } else {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const I32 both = Keep(LoadInts(w + 64 * g));
      q[g] = LowBits(both);
      q[g + 4] = HighBits(both);
    }
  }
}

// The sum of quant * x over a block, for kLanes rows. Two chains hide the latency.
template <class F>
[[gnu::always_inline]] inline I32 DotBlock(const I32 (&q)[8], const QuantizedBlock& x) {
  constexpr int kOffset = F::kBits == 8 ? kBytesOffset : F::kOffset;
  I32 sums[2] = {SetInts(kOffset ? -kOffset * x.sum : 0), SetInts(0)};
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    std::int32_t four;
    std::memcpy(&four, x.q + 4 * g, 4);
    I32& sum = sums[g / 4];
    if constexpr (F::kBits == 8) {
      sum = DotBytes(sum, q[g], SetInts(four));
    } else {
      sum = DotBits(sum, q[g], SetInts(four));
    }
  }
  return AddInts(sums[0], sums[1]);
}

// ahead: bytes from what is read to what is asked for.
template <class F, int kR>
[[gnu::noinline]] void MultiplyGroup(const char* w, const QuantizedBlock* x, std::int64_t blocks,
                                     std::int64_t ahead, float* sums) {
  constexpr int kV = kGroupRows / kLanes;
  F32 sum[kR][kV];
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[i][v] = Zero();
  }
  for (std::int64_t b = 0; b < blocks; ++b, w += kGroupBlockBytes<F>, x += kR) {
#pragma GCC unroll 16
    for (int line = 0; line < kGroupBlockBytes<F>; line += 64) Prefetch(w + ahead + line);
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      const auto* numbers = reinterpret_cast<const F16*>(w) + v * kLanes;
      I32 q[8];
      LoadQuants<F>(w + 2 * F::kNumbers * kGroupRows + v * 4 * kLanes, q);
      const F32 d = Load(numbers);
#pragma GCC unroll 8
      for (int i = 0; i < kR; ++i) {
        F32& s = sum[i][v];
        s = Fma(ToF32(DotBlock<F>(q, x[i])), d * Set(x[i].d), s);
        if constexpr (F::kNumbers > 1) s = Fma(Load(numbers + kGroupRows), Set(x[i].d_sum), s);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) Store(sums + i * kGroupRows + v * kLanes, sum[i][v]);
  }
}

// Calls f(i, count) for blocks of rows [0, rows): count is a constant, kTileRows and then halves.
template <int kR = kTileRows, class Fn>
[[gnu::always_inline]] inline void ForTiles(std::int64_t i, std::int64_t rows, Fn&& f) {
  for (; i + kR <= rows; i += kR) f(i, std::integral_constant<int, kR>{});
  if constexpr (kR > 1) ForTiles<kR / 2>(i, rows, f);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
