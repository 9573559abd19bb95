// SPDX-License-Identifier: Apache-2.0
// The product of quantized rows of x and a packed group of 16 rows of the weight.
//
//   w     packed blocks, as pack.h says
//   x     [blocks][rows] quantized blocks, rows <= kTileRows
//   sums  [rows][16] f32
//
// The products of a block are added exactly in integers, the blocks in ascending order in f32, so a
// row has the same bits whatever the shape of the tile.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/quantize/lanes.h"
#include "ops/linear_blocks/quantized.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kTileRows = kLanes == 16 ? 8 : kLanes == 8 ? 4 : 2;

// Quants [4 g, 4 g + 4) of 32 of kLanes rows in each of q[g]. low, high: where pack.h has their
// bits.
template <class F>
[[gnu::always_inline]] inline void LoadQuants(const char* low, const char* high, I32 (&q)[8]) {
  if constexpr (F::kBits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) q[g] = LoadInts(low + 64 * g);
    return;
  } else {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const I32 both = Keep(LoadInts(low + 64 * g));
      q[g] = LowBits(both);
      q[g + 4] = HighBits(both);
    }
  }
  if constexpr (F::kBits == 5) {
    const I32 fifths = Keep(LoadInts(high));
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) q[g] = Or(q[g], Bits(fifths, g - 4, 0x10101010));
  } else if constexpr (F::kBits == 6) {
    const I32 pairs[2] = {Keep(LoadInts(high)), Keep(LoadInts(high + 64))};
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      q[g] = Or(q[g], Bits(pairs[g / 4], g % 4 * 2 - 4, 0x30303030));
    }
  }
}

// start + the sum of quant * x over a half of a block, for kLanes rows.
template <class F>
[[gnu::always_inline]] inline I32 DotHalf(const I32 (&q)[8], const QuantizedBlock& x, int half,
                                          std::int32_t start) {
  I32 sum = SetInts(start);
#pragma GCC unroll 4
  for (int g = 4 * half; g < 4 * half + 4; ++g) {
    std::int32_t four;
    std::memcpy(&four, x.q + 4 * g, 4);
    if constexpr (F::kBits == 8) {
      sum = DotBytes(sum, q[g], SetInts(four));
    } else {
      sum = DotBits(sum, q[g], SetInts(four));
    }
  }
  return sum;
}

// The sum of quant * x over a block, for kLanes rows. Two chains hide the latency.
template <class F>
[[gnu::always_inline]] inline I32 DotBlock(const I32 (&q)[8], const QuantizedBlock& x) {
  constexpr int kOffset = F::kBits == 8 ? kBytesOffset : F::kOffset;
  return AddInts(DotHalf<F>(q, x, 0, kOffset ? -kOffset * x.sum : 0), DotHalf<F>(q, x, 1, 0));
}

// Adds the product of 32 quants, whose halves have scales of their own: both and their sum are
// integers that f32 holds exactly.
[[gnu::always_inline]] inline F32 AddHalvedBlock(const I32 (&q)[8], const QuantizedBlock& x,
                                                 const F32 (&scales)[2], F32 d, F32 sum) {
  const I32 first = DotHalf<Q6_K>(q, x, 0, -Q6_K::kOffset * x.first_sum);
  const I32 second = DotHalf<Q6_K>(q, x, 1, -Q6_K::kOffset * (x.sum - x.first_sum));
  return Fma(Fma(ToF32(second), scales[1], ToF32(first) * scales[0]), d * Set(x.d), sum);
}

// The numbers of a packed superblock, for 16 rows. A part has d and m of its own; in q6_K its
// halves have scales, and d is that of all.
template <class F>
struct alignas(64) PartNumbers {
  float d[kSuperblockParts][kGroupRows];
  float m[kSuperblockParts][kGroupRows];
};
template <>
struct alignas(64) PartNumbers<Q6_K> {
  float scales[kSuperblockParts][2][kGroupRows];
};

template <class F>
[[gnu::always_inline]] inline void ReadParts(const char* w, PartNumbers<F>& parts) {
#pragma GCC unroll 1
  for (int at = 0; at < kGroupRows; at += kLanes) {
    const auto word = [&](int i)
                          [[gnu::always_inline]] { return LoadInts(w + 64 + 64 * i + 4 * at); };
    const F32 d = Load(reinterpret_cast<const F16*>(w) + at);
    const F32 m = Zero() - Load(reinterpret_cast<const F16*>(w) + kGroupRows + at);
    const I32 a = word(0), b = word(1), c = word(2);
    const I32 words[4] = {
        Bits(a, 0, 0x3f3f3f3f), Or(Bits(c, 0, 0x0f0f0f0f), Bits(a, 2, 0x30303030)),
        Bits(b, 0, 0x3f3f3f3f), Or(Bits(c, 4, 0x0f0f0f0f), Bits(b, 2, 0x30303030))};
#pragma GCC unroll 8
    for (int p = 0; p < kSuperblockParts; ++p) {
      Store(parts.d[p] + at, d * ToF32(Bits(words[p / 4], p % 4 * 8, 0xff)));
      Store(parts.m[p] + at, m * ToF32(Bits(words[2 + p / 4], p % 4 * 8, 0xff)));
    }
  }
}
template <>
[[gnu::always_inline]] inline void ReadParts<Q6_K>(const char* w, PartNumbers<Q6_K>& parts) {
#pragma GCC unroll 1
  for (int at = 0; at < kGroupRows; at += kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const I32 four = LoadInts(w + 192 * kGroupRows + i / 4 * 64 + 4 * at);
      Store(parts.scales[i / 2][i % 2] + at, ToF32(SignedByte(four, i % 4)));
    }
  }
}

// Vectors of rows whose code stands side by side. Without instructions for products of bytes their
// code is long, and none of it waits.
#if defined(__AVX2__) || defined(__aarch64__)
inline constexpr int kVectorsAtOnce = kGroupRows / kLanes;
#else
inline constexpr int kVectorsAtOnce = 1;
#endif

// sum[i][v] += the products of a block of 32; d and m of kGroupRows rows (m: where F has them).
template <class F, int kR, class D>
[[gnu::always_inline]] inline void AddBlock(const char* low, const char* high, const D* d,
                                            const D* m, const QuantizedBlock* x,
                                            F32 (&sum)[kR][kGroupRows / kLanes]) {
#pragma GCC unroll kVectorsAtOnce
  for (int v = 0; v < kGroupRows / kLanes; ++v) {
    I32 q[8];
    LoadQuants<F>(low + v * 4 * kLanes, high + v * 4 * kLanes, q);
    const F32 scale = Load(d + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
      F32& s = sum[i][v];
      s = Fma(ToF32(DotBlock<F>(q, x[i])), scale * Set(x[i].d), s);
      if constexpr (F::kNumbers > 1) s = Fma(Load(m + v * kLanes), Set(x[i].d_sum), s);
    }
  }
}

// The same for 8 blocks of 32. ahead: as in MultiplyGroup.
template <class F, int kR>
[[gnu::always_inline]] inline void AddSuperblock(const char* w, const QuantizedBlock* x,
                                                 std::int64_t ahead,
                                                 F32 (&sum)[kR][kGroupRows / kLanes]) {
  constexpr int kPartBytes = int(kGroupBlockBytes<F>) / kSuperblockParts;
  PartNumbers<F> parts;
  ReadParts<F>(w, parts);
#pragma GCC unroll 1
  for (int p = 0; p < kSuperblockParts; ++p, x += kR) {
#pragma GCC unroll 16
    for (int line = 0; line < kPartBytes; line += 64) Prefetch(w + ahead + p * kPartBytes + line);
    const char* low = w + F::kQuants * kGroupRows + p * 256;
    const char* high = low;
    if constexpr (F::kBits > 4) high = w + F::kHigh * kGroupRows + p * 64 * (F::kBits - 4);
    if constexpr (F::kBits == 6) {
      const auto* d = reinterpret_cast<const F16*>(w + 208 * kGroupRows);
#pragma GCC unroll kVectorsAtOnce
      for (int v = 0; v < kGroupRows / kLanes; ++v) {
        I32 q[8];
        LoadQuants<F>(low + v * 4 * kLanes, high + v * 4 * kLanes, q);
        const F32 scales[2] = {Load(parts.scales[p][0] + v * kLanes),
                               Load(parts.scales[p][1] + v * kLanes)};
#pragma GCC unroll 8
        for (int i = 0; i < kR; ++i) {
          sum[i][v] = AddHalvedBlock(q, x[i], scales, Load(d + v * kLanes), sum[i][v]);
        }
      }
    } else {
      AddBlock<F, kR>(low, high, parts.d[p], parts.m[p], x, sum);
    }
  }
}

// ahead: bytes from what is read to what is asked for. blocks: of 32.
template <class F, int kR>
[[gnu::noinline]] void MultiplyGroup(const char* w, const QuantizedBlock* x, std::int64_t blocks,
                                     std::int64_t ahead, float* sums) {
  constexpr int kV = kGroupRows / kLanes, kStep = kElementsOf<F> / kBlockElements;
  F32 sum[kR][kV];
#pragma GCC unroll 8
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[i][v] = Zero();
  }
  for (std::int64_t b = 0; b < blocks; b += kStep, w += kGroupBlockBytes<F>, x += kStep * kR) {
    if constexpr (kIsSuperblock<F>) {
      AddSuperblock<F, kR>(w, x, ahead, sum);
    } else {
#pragma GCC unroll 16
      for (int line = 0; line < kGroupBlockBytes<F>; line += 64) Prefetch(w + ahead + line);
      const auto* d = reinterpret_cast<const F16*>(w);
      const char* low = w + F::kQuants * kGroupRows;
      AddBlock<F, kR>(low, w + 2 * F::kNumbers * kGroupRows, d, d + kGroupRows, x, sum);
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
