// SPDX-License-Identifier: Apache-2.0
// The product of one quantized row of x and 16 rows of blocks as they lie: a strip of kParts blocks
// of each row at a time.
//
// Every sum is the one that MultiplyGroup makes, bit for bit: the products of a block are added
// exactly in integers, the blocks in ascending order in f32.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/common/workspace.h"
#include "ops/linear_blocks/quantized.h"
#include "ops/linear_blocks/strip_lanes.h"
#include "ops/linear_blocks/strip_numbers.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Whether the products of a strip take two vectors: 32 bytes a block do not fit one part.
template <class F>
inline constexpr bool kHasHalves = F::kBits == 8 && kParts > 1;
// The blocks whose products one vector then holds.
inline constexpr int kHalf = kParts > 1 ? kParts / 2 : 1;

// A strip of x, arranged as the quants of the weight come.
struct alignas(64) StripOfX {
  std::int8_t q[2][4 * kLanes];
  std::int32_t start[2][kLanes];  // what the sums of products begin with
  float d[kParts], d_sum[kParts];
};

// Strips of a row of `blocks` >= kParts blocks: the last one begins earlier, so that it ends where
// the row does.
template <class N>
constexpr N StripsOf(const N& blocks) {
  return CeilDiv(blocks, N(kParts));
}
inline std::int64_t FirstOfStrip(std::int64_t strip, std::int64_t blocks) {
  return std::min(strip * kParts, blocks - kParts);
}

// x: blocks x[b].
template <class F>
inline void ArrangeStrips(const QuantizedBlock* x, std::int64_t blocks, StripOfX* strips) {
  constexpr int kOffset = F::kBits == 8 ? kBytesOffset : F::kOffset;
  for (std::int64_t s = 0; s < StripsOf(blocks); ++s) {
    StripOfX& strip = strips[s];
    std::memset(strip.start, 0, sizeof(strip.start));
    for (int b = 0; b < kParts; ++b) {
      const QuantizedBlock& block = x[FirstOfStrip(s, blocks) + b];
      if constexpr (kHasHalves<F>) {
        std::memcpy(strip.q[0] + kBlockElements * b, block.q, kBlockElements);
        strip.start[b / kHalf][b % kHalf * 8] = -kOffset * block.sum;
      } else {
        std::memcpy(strip.q[0] + 16 * b, block.q, 16);
        std::memcpy(strip.q[1] + 16 * b, block.q + 16, 16);
        strip.start[0][4 * b] = -kOffset * block.sum;
      }
      strip.d[b] = block.d;
      strip.d_sum[b] = block.d_sum;
    }
  }
}

// Part b, lane r: the sum of quant * x over block b of row r, for 4 rows. The four go step by step
// together, so that no step waits for the one before.
template <class F>
[[gnu::always_inline]] inline I32 DotQuad(const char* p, std::int64_t stride, const StripOfX& x) {
  const I32 low = LoadInts(x.q[0]), high = LoadInts(x.q[1]), start = LoadInts(x.start[0]);
  I32 a[4], b[4];
  const auto each = [&](auto&& f) [[gnu::always_inline]] {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) f(r, p + r * stride);
  };
  if constexpr (F::kBits == 8) {
    each([&](int r, const char* at) [[gnu::always_inline]] { a[r] = Keep(LoadHalf<F>(at, 0)); });
    each([&](int r, const char* at) [[gnu::always_inline]] { b[r] = Keep(LoadHalf<F>(at, 1)); });
    each([&](int r, auto) [[gnu::always_inline]] { a[r] = Keep(DotBytes(start, a[r], low)); });
    if constexpr (kHasHalves<F>) {
      const I32 other = LoadInts(x.start[1]);
      each([&](int r, auto) [[gnu::always_inline]] { b[r] = Keep(DotBytes(other, b[r], high)); });
      return AddHalves(SumQuads(a), SumQuads(b));
    } else {
      each([&](int r, auto) [[gnu::always_inline]] { a[r] = Keep(DotBytes(a[r], b[r], high)); });
    }
  } else {
    each([&](int r, const char* at) [[gnu::always_inline]] { b[r] = Keep(LoadNibbles<F>(at)); });
    each([&](int r, auto) [[gnu::always_inline]] { a[r] = Keep(LowBits(b[r])); });
    each([&](int r, auto) [[gnu::always_inline]] { b[r] = Keep(HighBits(b[r])); });
    each([&](int r, auto) [[gnu::always_inline]] { a[r] = Keep(DotBits(start, a[r], low)); });
    each([&](int r, auto) [[gnu::always_inline]] { a[r] = Keep(DotBits(a[r], b[r], high)); });
  }
  return SumQuads(a);
}

// sums[16]; w: 16 rows of `blocks` >= kParts blocks. Brings as many bytes, from `ahead` on, into
// the second level of cache: the first would take three times as long from memory.
template <class F>
[[gnu::noinline]] void MultiplyStrips(const char* w, std::int64_t blocks, const StripOfX* x,
                                      const char* ahead, float* sums) {
  constexpr int kV = kGroupRows / kLanes;
  const std::int64_t stride = blocks * F::kBytes;
  F32 sum[kV];
  for (F32& s : sum) s = Zero();
  Numbers<F> numbers;
  numbers.Begin(w, stride);
  // Adds the blocks of strip s from `first` on.
  const auto add = [&](std::int64_t s, int first) [[gnu::always_inline]] {
    const char* here = w + FirstOfStrip(s, blocks) * F::kBytes;
    const char* next = w + FirstOfStrip(s + 1, blocks) * F::kBytes;
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      I32 dots[kParts];
#pragma GCC unroll 4
      for (int g = 0; g < kParts; ++g) {
        const int row = 4 * (v * kParts + g);
        numbers.Read(here + row * stride, next + row * stride, stride, row);
        dots[g] = DotQuad<F>(here + row * stride, stride, x[s]);
      }
      numbers.Spread();
      TransposeParts(dots);
#pragma GCC unroll 4
      for (int b = 0; b < kParts; ++b) {
        if (b < first) continue;
        sum[v] = Fma(ToF32(dots[b]), numbers.d(b, v) * Set(x[s].d[b]), sum[v]);
        if constexpr (F::kNumbers > 1) sum[v] = Fma(numbers.m(b, v), Set(x[s].d_sum[b]), sum[v]);
      }
    }
    numbers.Advance();
  };
  const auto prefetch = [&] {
#pragma GCC unroll 64
    for (int line = 0; line < kGroupRows * kParts * F::kBytes; line += 64) {
      __builtin_prefetch(ahead + line, 0, 2);
    }
    ahead += kGroupRows * kParts * F::kBytes;
  };
  for (std::int64_t s = 0; s < blocks / kParts; ++s) {
    prefetch();
    add(s, 0);
  }
  if (blocks % kParts) {
    prefetch();
    add(blocks / kParts, int(kParts - blocks % kParts));
  }
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) Store(sums + v * kLanes, sum[v]);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
